package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"
)

const (
	again = 500 * time.Millisecond
	// The server ends a watch after that long; one that is silent for longer is dead.
	watchSeconds = 90
	patience     = 120 * time.Second
)

type client struct {
	url  string
	http *http.Client
}

func newClient(url, ca, certificate, key string) (*client, error) {
	authorities, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		return nil, fmt.Errorf("%s holds no certificate", ca)
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	trust := &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}
	return &client{url, &http.Client{Transport: &http.Transport{TLSClientConfig: trust}, Timeout: patience}}, nil
}

func (c *client) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode > 299 {
		defer answer.Body.Close()
		said, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return nil, fmt.Errorf("%s %s: %s %s", method, path, answer.Status, said)
	}
	return answer, nil
}

type kept interface {
	name() name
	version() string
}

// Keep tells all objects under a path, whenever one of them has changed, until the context ends.
func keep[T kept](ctx context.Context, c *client, path string, changed func(map[name]T)) {
	for ctx.Err() == nil {
		if err := listAndWatch(ctx, c, path, changed); err != nil && ctx.Err() == nil {
			log.Printf("%s: %v", path, err)
			time.Sleep(again)
		}
	}
}

func listAndWatch[T kept](ctx context.Context, c *client, path string, changed func(map[name]T)) error {
	answer, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Items []T `json:"items"`
	}
	err = json.NewDecoder(answer.Body).Decode(&list)
	answer.Body.Close()
	if err != nil {
		return err
	}
	all := map[name]T{}
	for _, each := range list.Items {
		all[each.name()] = each
	}
	changed(all)
	version := list.Metadata.ResourceVersion
	for {
		version, err = watch(ctx, c, path, version, all, changed)
		if err != nil {
			return err
		}
	}
}

// Watch goes on from a version and returns the one that it came to, when the server ended it in good order.
func watch[T kept](
	ctx context.Context, c *client, path, version string, all map[name]T, changed func(map[name]T),
) (string, error) {
	query := fmt.Sprintf("%s?watch=1&allowWatchBookmarks=1&timeoutSeconds=%d&resourceVersion=%s", path, watchSeconds, version)
	answer, err := c.do(ctx, http.MethodGet, query, nil)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	events := json.NewDecoder(answer.Body)
	for {
		var event struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := events.Decode(&event); err == io.EOF {
			return version, nil
		} else if err != nil {
			return "", err
		}
		if event.Type == "ERROR" {
			return "", fmt.Errorf("the watch ended: %s", event.Object)
		}
		var each T
		if err := json.Unmarshal(event.Object, &each); err != nil {
			return "", err
		}
		version = each.version()
		switch event.Type {
		case "BOOKMARK":
			continue
		case "DELETED":
			delete(all, each.name())
		default:
			all[each.name()] = each
		}
		changed(all)
	}
}
