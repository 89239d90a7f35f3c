package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sort"
	"strings"
)

const (
	clusterLocal = "ClusterLocal"
	// Of Knative's Services, the port that speaks HTTP/2 without TLS.
	http2Port = "81"
)

// A table holds every route at one moment. It is never changed, only replaced.
type table struct {
	hosts map[string]host
	// Services that an Ingress names and that are not there: its routes are not whole.
	missing map[name][]name
}

type host struct {
	local bool
	paths []route
}

type route struct {
	of            name
	prefix        string
	rewriteHost   string
	headers       map[string]headerMatch
	appendHeaders map[string]string
	backends      []backend
}

// A backend is where a part of the requests goes, and what is said to it.
type backend struct {
	address       string
	http2         bool
	percent       int
	appendHeaders map[string]string
}

func newTable(ingresses map[name]ingress, services map[name]service) *table {
	made := &table{hosts: map[string]host{}, missing: map[name][]name{}}
	for _, each := range ingresses {
		if each.Metadata.Deletion != "" {
			continue
		}
		for _, rule := range each.Spec.Rules {
			made.add(each.name(), rule, services)
		}
	}
	for _, each := range made.hosts {
		// The most particular first.
		sort.SliceStable(each.paths, func(a, b int) bool {
			if len(each.paths[a].headers) != len(each.paths[b].headers) {
				return len(each.paths[a].headers) > len(each.paths[b].headers)
			}
			return len(each.paths[a].prefix) > len(each.paths[b].prefix)
		})
	}
	return made
}

func (t *table) add(of name, rule rule, services map[name]service) {
	if rule.HTTP == nil {
		return
	}
	for _, path := range rule.HTTP.Paths {
		made := route{of, path.Path, path.RewriteHost, path.Headers, path.AppendHeaders, nil}
		for _, split := range path.Splits {
			to := name{split.ServiceNamespace, split.ServiceName}
			found, ok := services[to]
			if !ok || found.Spec.ClusterIP == "" || found.Spec.ClusterIP == "None" {
				t.missing[of] = append(t.missing[of], to)
				continue
			}
			port := split.ServicePort.String()
			made.backends = append(made.backends, backend{
				address:       fmt.Sprintf("%s:%s", found.Spec.ClusterIP, port),
				http2:         port == http2Port,
				percent:       split.Percent,
				appendHeaders: split.AppendHeaders,
			})
		}
		for _, each := range rule.Hosts {
			known := t.hosts[each]
			t.hosts[each] = host{rule.Visibility == clusterLocal, append(known.paths, made)}
		}
	}
}

// Find says which route a request takes; nil when there is none, or none that may be seen from where it came.
func (t *table) find(hostName string, seesLocal bool, request *http.Request) *route {
	found, ok := t.hosts[hostName]
	if !ok || (found.local && !seesLocal) {
		return nil
	}
	for number := range found.paths {
		if found.paths[number].matches(request) {
			return &found.paths[number]
		}
	}
	return nil
}

func (r *route) matches(request *http.Request) bool {
	if r.prefix != "" && !strings.HasPrefix(request.URL.Path, r.prefix) {
		return false
	}
	for header, wanted := range r.headers {
		if request.Header.Get(header) != wanted.Exact {
			return false
		}
	}
	return true
}

// Backend picks one by the percentages; nil when there is none. A single one that states no percentage gets everything.
func (r *route) backend() *backend {
	drawn, sum := rand.IntN(100), 0
	for number := range r.backends {
		sum += r.backends[number].percent
		if drawn < sum {
			return &r.backends[number]
		}
	}
	if len(r.backends) > 0 && sum < 100 {
		return &r.backends[len(r.backends)-1]
	}
	return nil
}
