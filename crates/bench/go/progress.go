package main

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// sentLabel says when the server has sent an event, in nanoseconds since 1970.
	sentLabel = "kube-bench/sent"
	// notSent is its value in what was not sent by an event.
	notSent = "1000000000000000000"
)

// progress is what the handler has seen so far.
type progress struct {
	events   atomic.Uint64
	seen     atomic.Uint64
	target   atomic.Uint64
	reached  chan struct{}
	measured atomic.Bool

	mutex     sync.Mutex
	latencies []uint64
}

// latency is from the moment in which an event was handed to the server's socket to its handler, in nanoseconds.
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

// saw is the handler: calls are made one after the other.
func (p *progress) saw(pod *corev1.Pod) {
	version, _ := strconv.ParseUint(pod.ResourceVersion, 10, 64)
	if p.measured.Load() {
		p.measure(pod.Labels[sentLabel])
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

// until waits until this version was seen.
func (p *progress) until(version uint64, measured bool) reached {
	p.measured.Store(measured)
	p.target.Store(version)
	// A notice may be left over from an earlier version.
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

// percentiles of nothing are none.
func percentiles(took []uint64) *latency {
	if len(took) == 0 {
		return nil
	}
	slices.Sort(took)
	at := func(percent int) uint64 { return took[min(len(took)*percent/100, len(took)-1)] }
	return &latency{P50: at(50), P99: at(99), Max: took[len(took)-1]}
}
