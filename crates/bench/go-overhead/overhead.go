package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
)

// load contains the numbers of objects.
type load struct {
	objects, perKind, namespaces int
}

// figures contains the figures of a part by their keys.
type figures map[string]float64

// handlerCount is the number of handlers of one informer.
const handlerCount = 10_000

// runOverhead measures one part of `kube-bench overhead`, as crates/bench/src/overhead does. It prints the figures, and keeps
// the caches until standard input closes. For each line that it reads, it prints the number of goroutines.
func runOverhead(part string) error {
	var load load
	flag.IntVar(&load.objects, "objects", 0, "number of ConfigMaps")
	flag.IntVar(&load.perKind, "per-kind", 0, "number of objects of each of ten kinds")
	flag.IntVar(&load.namespaces, "namespaces", 0, "number of namespaces")
	noCopies := flag.Bool("no-copies", false, "return cached objects without copies, and use the work queue of client-go")
	// controller-runtime defines the flag -kubeconfig.
	if err := flag.CommandLine.Parse(os.Args[2:]); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	measured := figures{}
	var err error
	switch part {
	case "reconcile":
		err = measureReconciles(ctx, load.objects, *noCopies, measured)
	case "memory":
		err = measureMemory(ctx, load.objects, measured)
	case "sync":
		err = syncKinds(ctx, load.perKind)
	case "start":
		err = startManager(ctx)
	case "namespaces":
		err = syncNamespaces(ctx, load.namespaces)
	default:
		err = fmt.Errorf("unknown part %q", part)
	}
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(measured); err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fmt.Println(runtime.NumGoroutine())
	}
	return lines.Err()
}

// cpu returns the CPU time of this process.
func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// nsPer returns the CPU time in nanoseconds per operation since before.
func nsPer(before time.Duration, operations int) float64 {
	return float64(cpu()-before) / float64(max(operations, 1))
}

// resident returns the resident memory in bytes, after a garbage collection that returns free memory to the system.
func resident() (float64, error) {
	freeMemory()
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	var total, pages float64
	if _, err := fmt.Sscan(string(statm), &total, &pages); err != nil {
		return 0, err
	}
	return pages * float64(os.Getpagesize()), nil
}
