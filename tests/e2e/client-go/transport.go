package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"k8s.io/client-go/rest"
)

// watched counts the requests of all steps except relist, which uses a separate connection.
var watched = newConnection()

// connection counts the list requests to the server. It can be interrupted and restored.
type connection struct {
	mu          sync.Mutex
	interrupted bool
	restored    chan struct{}
	bodies      map[io.Closer]struct{}
	lists       int // lists by LIST
	stream      int // lists by WATCH with the initial events
	tooOld      int // errors about an expired resourceVersion
}

var errInterrupted = errors.New("connection is interrupted")

func newConnection() *connection {
	return &connection{restored: make(chan struct{}), bodies: map[io.Closer]struct{}{}}
}

func (c *connection) wrap(config *rest.Config) {
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if err := c.wait(request.Context()); err != nil {
				return nil, err
			}
			c.count(request)
			response, err := inner.RoundTrip(request)
			if err == nil {
				response.Body = c.track(response.Body)
			}
			return response, err
		})
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// interrupt ends the open responses like a server does. Later requests wait until restore is called.
func (c *connection) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupted = true
	for body := range c.bodies {
		_ = body.Close()
	}
}

// restore permits requests again.
func (c *connection) restore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupted = false
	close(c.restored)
}

func (c *connection) wait(ctx context.Context) error {
	c.mu.Lock()
	interrupted := c.interrupted
	c.mu.Unlock()
	if !interrupted {
		return nil
	}
	select {
	case <-c.restored:
		return nil
	case <-ctx.Done():
		return errInterrupted
	}
}

func (c *connection) count(request *http.Request) {
	query := request.URL.Query()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case query.Get("sendInitialEvents") == "true":
		c.stream++
	case query.Has("resourceVersion") && !query.Has("watch"):
		c.lists++ // only the lists of informers contain a resourceVersion
	}
}

func (c *connection) counts() (lists, streams, tooOld int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lists, c.stream, c.tooOld
}

func (c *connection) track(body io.ReadCloser) io.ReadCloser {
	tracked := &trackedBody{ReadCloser: body, connection: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bodies[tracked] = struct{}{}
	return tracked
}

type trackedBody struct {
	io.ReadCloser
	connection *connection
}

func (b *trackedBody) Read(buffer []byte) (int, error) {
	count, err := b.ReadCloser.Read(buffer)
	b.connection.mu.Lock()
	defer b.connection.mu.Unlock()
	if bytes.Contains(buffer[:count], []byte("too old")) {
		b.connection.tooOld++
	}
	if err != nil && b.connection.interrupted {
		err = io.EOF
	}
	return count, err
}

func (b *trackedBody) Close() error {
	go func() { // in a goroutine, because interrupt holds the lock while it closes bodies
		b.connection.mu.Lock()
		defer b.connection.mu.Unlock()
		delete(b.connection.bodies, b)
	}()
	return b.ReadCloser.Close()
}
