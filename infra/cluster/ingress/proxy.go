package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

type chosen struct {
	route   *route
	backend *backend
}

type chosenKey struct{}

// A proxy leads requests by the table of the moment in which they arrive.
type proxy struct {
	table     *atomic.Pointer[table]
	seesLocal bool
	reverse   *httputil.ReverseProxy
}

func newProxy(current *atomic.Pointer[table], seesLocal bool) *proxy {
	return &proxy{current, seesLocal, &httputil.ReverseProxy{
		Rewrite:       rewrite,
		Transport:     newTransport(),
		FlushInterval: -1,
		ErrorHandler:  tellFailure,
	}}
}

func (p *proxy) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	hostName := request.Host
	if bare, _, err := net.SplitHostPort(hostName); err == nil {
		hostName = bare
	}
	route := p.table.Load().find(strings.ToLower(hostName), p.seesLocal, request)
	if route == nil {
		http.Error(writer, fmt.Sprintf("ingress: there is no route for %s%s", hostName, request.URL.Path), http.StatusNotFound)
		return
	}
	backend := route.backend()
	if backend == nil {
		http.Error(writer, fmt.Sprintf("ingress: %s has nothing to lead to", hostName), http.StatusServiceUnavailable)
		return
	}
	ctx := context.WithValue(request.Context(), chosenKey{}, chosen{route, backend})
	p.reverse.ServeHTTP(writer, request.WithContext(ctx))
}

func rewrite(request *httputil.ProxyRequest) {
	to := request.In.Context().Value(chosenKey{}).(chosen)
	request.SetURL(&url.URL{Scheme: "http", Host: to.backend.address})
	request.Out.Host = request.In.Host
	if to.route.rewriteHost != "" {
		request.Out.Host = to.route.rewriteHost
	}
	// What earlier hops have said stays, and this one is added.
	request.Out.Header["X-Forwarded-For"] = request.In.Header["X-Forwarded-For"]
	request.SetXForwarded()
	for header, value := range to.route.appendHeaders {
		request.Out.Header.Set(header, value)
	}
	for header, value := range to.backend.appendHeaders {
		request.Out.Header.Set(header, value)
	}
}

func tellFailure(writer http.ResponseWriter, request *http.Request, err error) {
	if errors.Is(err, context.Canceled) {
		// Nobody is there any more to be told.
		return
	}
	log.Printf("%s %s%s: %v", request.Method, request.Host, request.URL.Path, err)
	http.Error(writer, fmt.Sprintf("ingress: %v", err), http.StatusBadGateway)
}

// A transport that speaks HTTP/2 where the backend does.
type transport struct{ http1, http2 *http.Transport }

func newTransport() transport {
	return transport{http1: newOneTransport(false), http2: newOneTransport(true)}
}

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Context().Value(chosenKey{}).(chosen).backend.http2 {
		return t.http2.RoundTrip(request)
	}
	return t.http1.RoundTrip(request)
}

func newOneTransport(http2 bool) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	return &http.Transport{
		Protocols:           protocols,
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		MaxIdleConnsPerHost: 200,
		// A connection stays with one pod behind the Service's address, which may go.
		IdleConnTimeout:    10 * time.Second,
		DisableCompression: true,
	}
}

func answerHealth(current *atomic.Pointer[table]) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(writer http.ResponseWriter, _ *http.Request) { fmt.Fprintln(writer, "ok") })
	mux.HandleFunc("/routes", func(writer http.ResponseWriter, _ *http.Request) {
		told := map[string][]string{}
		for hostName, each := range current.Load().hosts {
			for _, route := range each.paths {
				for _, backend := range route.backends {
					told[hostName] = append(told[hostName], fmt.Sprintf("%s %s %d%%", route.prefix, backend.address, backend.percent))
				}
			}
		}
		encoder := json.NewEncoder(writer)
		encoder.SetIndent("", " ")
		if err := encoder.Encode(told); err != nil {
			log.Print(err)
		}
	})
	return mux
}
