// A reverse proxy as Knative's own are made of: net/http's server in front, its transport behind, nothing else.
//
// Go's transport writes head and body of a request in one or in two pieces, as it happens; that is what the bench wants.
package main

import (
	"flag"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
)

func main() {
	listen := flag.String("listen", "", "address to listen on")
	to := flag.String("to", "", "URL of the server behind it")
	flag.Parse()

	target, err := url.Parse(*to)
	if err != nil {
		log.Fatal(err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	// As Knative's queue-proxy has it: Go keeps two idle connections to a host, and would open one for most requests.
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 1000, 100
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(request *httputil.ProxyRequest) { request.SetURL(target) },
		Transport: transport,
	}
	log.Fatal(http.ListenAndServe(*listen, proxy))
}
