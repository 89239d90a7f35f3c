package main

import (
	"net/http/httptest"
	"testing"
)

func ingressOf(rules ...rule) map[name]ingress {
	made := ingress{}
	made.Metadata.Namespace, made.Metadata.Name = "shop", "orders"
	made.Spec.Rules = rules
	return map[name]ingress{made.name(): made}
}

func servicesOf(names ...string) map[name]service {
	made := map[name]service{}
	for _, each := range names {
		of := service{}
		of.Spec.ClusterIP = "10.0.0." + each
		made[name{"shop", each}] = of
	}
	return made
}

func ruleOf(host, visibility string, paths ...path) rule {
	made := rule{Hosts: []string{host}, Visibility: visibility}
	made.HTTP = &struct {
		Paths []path `json:"paths"`
	}{paths}
	return made
}

func splitOf(service string, percent int) split {
	return split{ServiceNamespace: "shop", ServiceName: service, ServicePort: "80", Percent: percent}
}

func TestWhatIsVisibleInTheClusterOnlyIsNotSeenFromElsewhere(t *testing.T) {
	table := newTable(ingressOf(
		ruleOf("orders.shop.svc.cluster.local", clusterLocal, path{Splits: []split{splitOf("1", 100)}}),
		ruleOf("orders.shop.example.com", "ExternalIP", path{Splits: []split{splitOf("1", 100)}}),
	), servicesOf("1"))
	request := httptest.NewRequest("POST", "/", nil)

	for _, each := range []struct {
		host      string
		seesLocal bool
		found     bool
	}{
		{"orders.shop.svc.cluster.local", true, true},
		{"orders.shop.svc.cluster.local", false, false},
		{"orders.shop.example.com", true, true},
		{"orders.shop.example.com", false, true},
		{"nobody.shop.example.com", true, false},
	} {
		if found := table.find(each.host, each.seesLocal, request) != nil; found != each.found {
			t.Errorf("%s, sees local %v: found %v", each.host, each.seesLocal, found)
		}
	}
}

func TestTheMostParticularRouteIsTaken(t *testing.T) {
	table := newTable(ingressOf(ruleOf("orders", "ExternalIP",
		path{Splits: []split{splitOf("1", 100)}},
		path{Path: "/deep", Splits: []split{splitOf("2", 100)}},
		path{Headers: map[string]headerMatch{"Knative-Serving-Tag": {"new"}}, Splits: []split{splitOf("3", 100)}},
	)), servicesOf("1", "2", "3"))

	for _, each := range []struct{ path, tag, address string }{
		{"/", "", "10.0.0.1:80"},
		{"/deep/er", "", "10.0.0.2:80"},
		{"/deep", "new", "10.0.0.3:80"},
		{"/", "old", "10.0.0.1:80"},
	} {
		request := httptest.NewRequest("GET", each.path, nil)
		request.Header.Set("Knative-Serving-Tag", each.tag)
		if address := table.find("orders", false, request).backend().address; address != each.address {
			t.Errorf("%s with tag %q went to %s", each.path, each.tag, address)
		}
	}
}

func TestTrafficIsSplitByPercentages(t *testing.T) {
	table := newTable(ingressOf(ruleOf("orders", "ExternalIP",
		path{Splits: []split{splitOf("1", 90), splitOf("2", 10)}})), servicesOf("1", "2"))
	route, second := table.find("orders", false, httptest.NewRequest("GET", "/", nil)), 0

	for range 10_000 {
		if route.backend().address == "10.0.0.2:80" {
			second++
		}
	}

	if second < 800 || second > 1_200 {
		t.Errorf("%d of 10,000 went to one with 10 %%", second)
	}
}

func TestAnIngressWithoutAllItsServicesIsNotWhole(t *testing.T) {
	table := newTable(ingressOf(ruleOf("orders", "ExternalIP",
		path{Splits: []split{splitOf("1", 50), splitOf("2", 50)}})), servicesOf("1"))

	if missing := table.missing[name{"shop", "orders"}]; len(missing) != 1 || missing[0].name != "2" {
		t.Errorf("missing: %v", missing)
	}
}
