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

// watched records the requests of all steps except relist, which uses a separate connection.
var watched = newLine()

// line is a connection to the server that counts list requests, and that can be closed and reopened.
type line struct {
	mu     sync.Mutex
	isCut  bool
	mended chan struct{}
	bodies map[io.Closer]struct{}
	lists  int // by LIST
	stream int // by a WATCH that sends the initial events
	tooOld int // answers that said that a version is too old
}

var errCut = errors.New("the connection is closed")

func newLine() *line {
	return &line{mended: make(chan struct{}), bodies: map[io.Closer]struct{}{}}
}

func (l *line) wrap(config *rest.Config) {
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if err := l.wait(request.Context()); err != nil {
				return nil, err
			}
			l.count(request)
			response, err := inner.RoundTrip(request)
			if err == nil {
				response.Body = l.hold(response.Body)
			}
			return response, err
		})
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// cut closes the open requests as the server would. Further requests wait until the connection is
// reopened.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = true
	for body := range l.bodies {
		_ = body.Close()
	}
}

func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = false
	close(l.mended)
}

func (l *line) wait(ctx context.Context) error {
	l.mu.Lock()
	isCut := l.isCut
	l.mu.Unlock()
	if !isCut {
		return nil
	}
	select {
	case <-l.mended:
		return nil
	case <-ctx.Done():
		return errCut
	}
}

func (l *line) count(request *http.Request) {
	query := request.URL.Query()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case query.Get("sendInitialEvents") == "true":
		l.stream++
	case query.Has("resourceVersion") && !query.Has("watch"):
		l.lists++ // informers name a version; other lists in the steps don't
	}
}

func (l *line) counts() (lists, streams, tooOld int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lists, l.stream, l.tooOld
}

func (l *line) hold(body io.ReadCloser) io.ReadCloser {
	held := &heldBody{ReadCloser: body, line: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bodies[held] = struct{}{}
	return held
}

type heldBody struct {
	io.ReadCloser
	line *line
}

func (b *heldBody) Read(buffer []byte) (int, error) {
	count, err := b.ReadCloser.Read(buffer)
	b.line.mu.Lock()
	defer b.line.mu.Unlock()
	if bytes.Contains(buffer[:count], []byte("too old")) {
		b.line.tooOld++
	}
	if err != nil && b.line.isCut {
		err = io.EOF
	}
	return count, err
}

func (b *heldBody) Close() error {
	go func() { // later, because cut closes while it holds the lock
		b.line.mu.Lock()
		defer b.line.mu.Unlock()
		delete(b.line.bodies, b)
	}()
	return b.ReadCloser.Close()
}
