package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/reservation-operator/reservation-operator/test/cluster"
)

// door stands between one run of an operator and the API server and lets its writes through one by one.
type door struct {
	// before is asked before a request goes through; it may be nil. After is told of each write that was accepted, or may
	// have been, before the operator is. It returns whether that was the last that goes through.
	before func(request) error
	after  func(write) (last bool)

	// kubeconfig is the file that leads the operator through here.
	kubeconfig string

	server *http.Server
	base   http.RoundTripper
	writes sync.Mutex
	closed bool // guarded by writes
}

// request is what an operator asks for.
type request struct {
	cluster.Write
	// writes says that it changes something that lasts: no question, no dry run and no lease.
	writes bool
}

var errClosed = errors.New("whoever asked is gone")

// newDoor opens a door to the cluster for one run of an operator.
func newDoor(ctx context.Context, c *cluster.Cluster, name string) (*door, error) {
	account, err := c.Account(ctx)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", account)
	if err != nil {
		return nil, err
	}
	base, err := rest.TransportFor(config) // with the account's token: over plain HTTP a client sends none
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &door{base: base, kubeconfig: filepath.Join(c.Dir, name+".kubeconfig")}
	d.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: &httputil.ReverseProxy{
		Transport: d, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}}
	go func() { _ = d.server.Serve(listener) }()
	const here = "door"
	return d, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{here: {Server: "http://" + listener.Addr().String()}},
		Contexts:       map[string]*clientcmdapi.Context{here: {Cluster: here}},
		CurrentContext: here,
	}, d.kubeconfig)
}

// close lets nothing more through. It returns after the write that is under way.
func (d *door) close() {
	d.writes.Lock()
	d.closed = true
	d.writes.Unlock()
	_ = d.server.Close()
}

// RoundTrip is the way of one request.
func (d *door) RoundTrip(r *http.Request) (*http.Response, error) {
	asked := requestOf(r)
	if asked.writes {
		d.writes.Lock()
		defer d.writes.Unlock()
		if d.closed {
			return nil, errClosed
		}
	}
	if d.before != nil {
		if err := d.before(asked); err != nil {
			return nil, err
		}
	}
	if asked.writes {
		// It is with the API server, whoever goes away meanwhile.
		r = r.WithContext(context.WithoutCancel(r.Context()))
	}
	response, err := d.base.RoundTrip(r)
	if asked.writes && (err != nil || response.StatusCode < 300 || response.StatusCode >= http.StatusInternalServerError) {
		d.closed = d.after(write{asked.Write, err != nil || response.StatusCode >= 300})
	}
	return response, err
}

var verbs = map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"}

// requestOf reads a request to the API server: /api/v1/RESOURCE/NAME/SUBRESOURCE, or /apis/GROUP/VERSION/namespaces/….
func requestOf(r *http.Request) request {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		parts = parts[3:]
	default:
		return request{}
	}
	w := request{Write: cluster.Write{Verb: verbs[r.Method]}}
	if parts[0] == "namespaces" && len(parts) > 2 {
		w.Namespace, parts = parts[1], parts[2:]
	}
	w.Resource = parts[0]
	if len(parts) > 1 {
		w.Name = parts[1]
	}
	if len(parts) > 2 {
		w.Resource = fmt.Sprintf("%s/%s", parts[0], parts[2])
	}
	dry := slices.Contains(r.URL.Query()["dryRun"], "All")
	w.writes = w.Verb != "" && !dry && w.Resource != "leases" && !strings.HasSuffix(w.Resource, "reviews")
	return w
}
