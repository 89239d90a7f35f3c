package main

import (
	"context"
	"encoding/json"
	"log"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	ingressesPath = "/apis/networking.internal.knative.dev/v1alpha1/ingresses"
	servicesPath  = "/api/v1/services"
)

// A controller keeps the table true, and says in each Ingress's status that it is.
type controller struct {
	client                  *client
	table                   *atomic.Pointer[table]
	externalName, localName string

	lock      sync.Mutex
	ingresses map[name]ingress
	services  map[name]service
	wake      chan struct{}
}

func (c *controller) run(ctx context.Context) {
	c.wake = make(chan struct{}, 1)
	go keep(ctx, c.client, servicesPath, func(all map[name]service) { c.note(func() { c.services = maps.Clone(all) }) })
	go keep(ctx, c.client, ingressesPath, func(all map[name]ingress) { c.note(func() { c.ingresses = maps.Clone(all) }) })
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
			c.update(ctx)
		}
	}
}

func (c *controller) note(change func()) {
	c.lock.Lock()
	change()
	c.lock.Unlock()
	c.wakeUp()
}

func (c *controller) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Routes first, then status: an Ingress that is Ready is one whose requests arrive.
func (c *controller) update(ctx context.Context) {
	c.lock.Lock()
	ingresses, services := c.ingresses, c.services
	c.lock.Unlock()
	if ingresses == nil || services == nil {
		return
	}
	made := newTable(ingresses, services)
	c.table.Store(made)
	for _, each := range ingresses {
		if each.Metadata.Deletion != "" || each.isReady() || len(made.missing[each.name()]) > 0 {
			continue
		}
		if err := c.markReady(ctx, each); err != nil {
			log.Printf("status of %s/%s: %v", each.Metadata.Namespace, each.Metadata.Name, err)
			time.AfterFunc(again, c.wakeUp)
		}
	}
}

func (c *controller) markReady(ctx context.Context, of ingress) error {
	now := time.Now().UTC().Format(time.RFC3339)
	var conditions []condition
	for _, each := range []string{"LoadBalancerReady", "NetworkConfigured", "Ready"} {
		conditions = append(conditions, condition{each, "True", now})
	}
	status := map[string]any{
		"observedGeneration":  of.Metadata.Generation,
		"conditions":          conditions,
		"publicLoadBalancer":  loadBalancer(c.externalName),
		"privateLoadBalancer": loadBalancer(c.localName),
	}
	body, err := json.Marshal(map[string]any{
		// Of the object that was looked at, and of no newer one.
		"metadata": map[string]any{"resourceVersion": of.Metadata.ResourceVersion},
		"status":   status,
	})
	if err != nil {
		return err
	}
	path := "/apis/networking.internal.knative.dev/v1alpha1/namespaces/" + of.Metadata.Namespace + "/ingresses/" + of.Metadata.Name
	answer, err := c.client.do(ctx, http.MethodPatch, path+"/status", body)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

func loadBalancer(domain string) map[string]any {
	return map[string]any{"ingress": []map[string]any{{"domainInternal": domain}}}
}
