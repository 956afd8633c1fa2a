package main

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// sentLabel is the label with the send time of an event, in nanoseconds since 1970.
	sentLabel = "kube-bench/sent"
	// notSent is the value of the label in objects that were not sent by an event.
	notSent = "1000000000000000000"
)

// progress counts the events that the handler has received.
type progress struct {
	events   atomic.Uint64
	seen     atomic.Uint64
	target   atomic.Uint64
	reached  chan struct{}
	measured atomic.Bool

	mutex     sync.Mutex
	latencies []uint64
}

// latency is the time from the write of an event to the socket until the call of the handler, in nanoseconds.
type latency struct {
	P50 uint64 `json:"p50"`
	P99 uint64 `json:"p99"`
	Max uint64 `json:"max"`
}

type reached struct {
	Events  uint64   `json:"events"`
	Latency *latency `json:"latency"`
}

func newProgress() *progress {
	return &progress{reached: make(chan struct{}, 1)}
}

// record is the handler. Calls do not overlap.
func (p *progress) record(object metav1.Object) {
	version, _ := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if p.measured.Load() {
		p.measure(object.GetLabels()[sentLabel])
	}
	p.events.Add(1)
	if version > p.seen.Load() {
		p.seen.Store(version)
	}
	if target := p.target.Load(); target != 0 && version >= target {
		select {
		case p.reached <- struct{}{}:
		default:
		}
	}
}

func (p *progress) measure(sent string) {
	then, err := strconv.ParseInt(sent, 10, 64)
	if err != nil || sent == notSent {
		return
	}
	took := max(time.Now().UnixNano()-then, 0)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.latencies = append(p.latencies, uint64(took))
}

// until waits until the handler has received this resourceVersion.
func (p *progress) until(version uint64, measured bool) reached {
	p.measured.Store(measured)
	p.target.Store(version)
	// A notification of an earlier resourceVersion may be stored.
	for p.seen.Load() < version {
		<-p.reached
	}
	p.target.Store(0)
	p.measured.Store(false)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	took := p.latencies
	p.latencies = nil
	return reached{Events: p.events.Swap(0), Latency: percentiles(took)}
}

// percentiles returns nil for an empty slice.
func percentiles(took []uint64) *latency {
	if len(took) == 0 {
		return nil
	}
	slices.Sort(took)
	at := func(percent int) uint64 { return took[min(len(took)*percent/100, len(took)-1)] }
	return &latency{P50: at(50), P99: at(99), Max: took[len(took)-1]}
}
