// client-go performs the operations that Go programs use: informers of each kind, leader election, events,
// conflicts, server-side apply and finalizers. It prints one line for each step and exits with 0 if all
// steps succeed.
//
// When the server must compact its history, the program prints "compact" and waits for a line on its
// standard input.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// deadline is the time limit of each step.
const deadline = 20 * time.Second

// program contains the state that the steps share.
type program struct {
	config    *rest.Config
	typed     kubernetes.Interface
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	namespace string
	stdin     *bufio.Reader
}

// step performs one step and returns the result as text.
type step struct {
	name string
	run  func(ctx context.Context, p *program) (string, error)
}

var steps = []step{
	{"namespace", createNamespace},
	{"shared informer", sharedInformer},
	{"filtered informer", filteredInformer},
	{"custom kind", createWidgets},
	{"dynamic informer, built-in kind", dynamicConfigMaps},
	{"dynamic informer, custom kind", dynamicWidgets},
	{"metadata informer", metadataInformer},
	{"how informers listed", listTransport},
	{"relist after compaction", relist},
	{"leader election", leaderElection},
	{"event recorder", recordEvents},
	{"conflicts", conflicts},
	{"server-side apply", serverSideApply},
	{"strategic merge patch", strategicPatch},
	{"status and scale", statusAndScale},
	{"finalizers", finalizers},
	{"pages", pages},
	{"discovery", discover},
	{"deletion", deletion},
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "path of the kubeconfig")
	namespace := flag.String("namespace", "client-go", "namespace to create; it must not exist")
	contentType := flag.String("content-type", "application/json", "content type of bodies; empty uses the default of client-go")
	flag.Parse()
	if err := run(*kubeconfig, *namespace, *contentType); err != nil {
		fmt.Printf("FAILED %v\n", err)
		os.Exit(1)
	}
}

func run(kubeconfig, namespace, contentType string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.ContentType = contentType
	config.QPS = -1 // no client-side rate limit
	watched.wrap(config)
	p := &program{config: config, namespace: namespace, stdin: bufio.NewReader(os.Stdin)}
	if p.typed, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if p.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	if p.metadata, err = metadata.NewForConfig(config); err != nil {
		return err
	}
	for _, step := range steps {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		seen, err := step.run(ctx, p)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Printf("%s: %s\n", step.name, seen)
	}
	return nil
}

func createNamespace(ctx context.Context, p *program) (string, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}
	created, err := p.typed.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return string(created.Status.Phase), nil
}

// compact asks the test to compact the history of the server, and waits until this is done.
func (p *program) compact() error {
	fmt.Println("compact")
	_, err := p.stdin.ReadString('\n')
	return err
}
