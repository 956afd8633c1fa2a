package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// leaderElection starts two candidates. The second takes over when the first releases the lease. The first
// takes over when the second stops without a release and its lease expires.
func leaderElection(ctx context.Context, p *program) (string, error) {
	led := make(chan string, 10)
	stopOne, err := p.candidate(ctx, "one", true, led)
	if err != nil {
		return "", err
	}
	defer stopOne()
	first := <-led
	stopTwo, err := p.candidate(ctx, "two", false, led)
	if err != nil {
		return "", err
	}
	defer stopTwo()
	stopOne()
	var order []string
	for _, next := range []func(){func() { stopTwo() }, func() {}} {
		select {
		case leader := <-led:
			order = append(order, leader)
		case <-ctx.Done():
			return "", fmt.Errorf("no candidate is the leader after %s and %v", first, order)
		}
		if len(order) == 1 {
			stopAgain, err := p.candidate(ctx, "three", true, led)
			if err != nil {
				return "", err
			}
			defer stopAgain()
		}
		next()
	}
	lease, err := p.typed.CoordinationV1().Leases(p.namespace).Get(ctx, "leader", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	holder, transitions := *lease.Spec.HolderIdentity, *lease.Spec.LeaseTransitions
	return fmt.Sprintf("%s, then %v; %s holds the lease after %d transitions", first, order, holder, transitions), nil
}

// candidate starts a candidate and returns a function that stops it. A graceful candidate releases the
// lease when it stops.
func (p *program) candidate(ctx context.Context, name string, graceful bool, led chan<- string) (func(), error) {
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, p.namespace, "leader",
		p.typed.CoreV1(), p.typed.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: name})
	if err != nil {
		return nil, err
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: name, ReleaseOnCancel: graceful,
		LeaseDuration: 2 * time.Second, RenewDeadline: 1500 * time.Millisecond, RetryPeriod: 200 * time.Millisecond,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { led <- name },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(running)
	}()
	return func() { stop(); <-ended }, nil
}
