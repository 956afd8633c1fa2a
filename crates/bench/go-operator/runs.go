package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// told is how many runs that fail are told on standard error; the others are counted.
const told = 5

// runs are those of the operator.
type runs struct {
	// looked says, by the numbers of the Websites, whether a run has succeeded.
	looked []atomic.Bool
	// left is how many are left of them.
	left          atomic.Int64
	ended, failed atomic.Uint64
}

func newRuns(objects int) *runs {
	r := &runs{looked: make([]atomic.Bool, objects)}
	r.left.Store(int64(objects))
	return r
}

// end notes that a run for the Website of this name has ended.
func (r *runs) end(name string, err error) {
	r.ended.Add(1)
	if err != nil {
		if r.failed.Add(1) <= told {
			fmt.Fprintf(os.Stderr, "a run for %s has failed: %v\n", name, err)
		}
		return
	}
	number, err := strconv.Atoi(strings.TrimPrefix(name, "site-"))
	if err != nil || number >= len(r.looked) || r.looked[number].Swap(true) {
		return
	}
	if r.left.Add(-1) == 0 {
		fmt.Println(`"looked"`)
	}
}

func (r *runs) say() {
	fmt.Printf("{\"runs\":{\"ended\":%d,\"failed\":%d}}\n", r.ended.Load(), r.failed.Load())
}
