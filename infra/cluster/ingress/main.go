// The ingress of a cluster that `task cluster` makes, in the place of Kourier and the like, which no registry of modules
// carries: it marks Knative's Ingresses Ready and leads requests, by their Host, to the Services of revisions.
//
// Two listeners: one for what is visible from everywhere, and one that knows what is visible in the cluster only, too.
// HTTP/1.1 and HTTP/2 without TLS. No time-outs of its own on requests: they are Knative's to have.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	external := flag.String("external", "", "address for what is visible from everywhere")
	local := flag.String("local", "", "address for what is visible in the cluster, too")
	health := flag.String("health", "", "address of /healthz, and of /routes, which tells all routes")
	externalName := flag.String("external-name", "", "host name of -external within the cluster, told in status")
	localName := flag.String("local-name", "", "the same of -local")
	server := flag.String("api", "", "URL of the API server")
	ca := flag.String("ca", "", "file of the CA of its certificate")
	certificate := flag.String("certificate", "", "file of the certificate of this client")
	key := flag.String("key", "", "file of its key")
	flag.Parse()

	client, err := newClient(*server, *ca, *certificate, *key)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	var current atomic.Pointer[table]
	current.Store(newTable(nil, nil))
	controller := &controller{client: client, table: &current, externalName: *externalName, localName: *localName}
	serve(*external, newProxy(&current, false))
	serve(*local, newProxy(&current, true))
	serve(*health, answerHealth(&current))
	controller.run(ctx)
}

func serve(address string, handler http.Handler) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: handler, Protocols: protocols, ReadHeaderTimeout: 30 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Fatal(err)
		}
	}()
}
