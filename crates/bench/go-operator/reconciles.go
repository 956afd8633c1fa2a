package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// maxPrintedFailures is the number of failures that are printed to standard error. Further failures are only counted.
const maxPrintedFailures = 5

// reconcileCounter counts the reconciles of the operator.
type reconcileCounter struct {
	// reconciled contains, for each Website, whether a reconcile succeeded.
	reconciled []atomic.Bool
	// left is the number of Websites without a successful reconcile.
	left          atomic.Int64
	total, failed atomic.Uint64
}

func newReconcileCounter(objects int) *reconcileCounter {
	r := &reconcileCounter{reconciled: make([]atomic.Bool, objects)}
	r.left.Store(int64(objects))
	return r
}

// record counts a reconcile of the Website with this name.
func (r *reconcileCounter) record(name string, err error) {
	r.total.Add(1)
	if err != nil {
		if r.failed.Add(1) <= maxPrintedFailures {
			fmt.Fprintf(os.Stderr, "reconcile of %s failed: %v\n", name, err)
		}
		return
	}
	number, err := strconv.Atoi(strings.TrimPrefix(name, "site-"))
	if err != nil || number >= len(r.reconciled) || r.reconciled[number].Swap(true) {
		return
	}
	if r.left.Add(-1) == 0 {
		fmt.Println(`"allReconciled"`)
	}
}

// printTotals prints the counts so far.
func (r *reconcileCounter) printTotals() {
	fmt.Printf("{\"reconciles\":{\"total\":%d,\"failed\":%d}}\n", r.total.Load(), r.failed.Load())
}
