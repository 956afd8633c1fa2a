// controller-runtime is its part of the comparison of operators: a manager with one controller, and the manager's defaults.
// It says when it has looked at each Website; then it says how many runs there were for each line that it reads. What it
// says is what crates/bench/src/operators/program.rs does.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	objects := flag.Int("objects", 0, "how many Websites there are")
	concurrency := flag.Int("concurrency", 1, "how many runs there may be at once")
	readYourWrites := flag.Bool("read-your-writes", false, "wait until the cache shows what was written")
	// -kubeconfig is controller-runtime's own.
	flag.Parse()
	if err := run(newRuns(*objects), *concurrency, *readYourWrites); err != nil {
		fmt.Fprintf(os.Stderr, "controller-runtime: %v\n", err)
		os.Exit(1)
	}
}

func run(runs *runs, concurrency int, readYourWrites bool) error {
	ctrl.SetLogger(logr.Discard())
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := addWebsites(scheme); err != nil {
		return err
	}
	// Has no limit of its own on requests, as the others have none.
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	// Without TLS client-go would take net/http's default transport, which keeps two connections and opens others anew.
	config.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	options := ctrl.Options{
		Scheme: scheme,
		// The port may be taken.
		Metrics: metricsserver.Options{BindAddress: "0"},
	}
	if readYourWrites {
		options.Client.Cache = &client.CacheOptions{EnableReadYourWritesConsistency: &readYourWrites}
	}
	manager, err := ctrl.NewManager(config, options)
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&Website{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).
		Complete(&reconciler{Client: manager.GetClient(), runs: runs})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go answer(runs, stop)
	return manager.Start(ctx)
}

// answer says how many runs there were for each line of the standard input, and ends the program with it.
func answer(runs *runs, stop func()) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		runs.say()
	}
	stop()
}
