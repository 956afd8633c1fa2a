// The program client-go uses a shared informer on Pods with one handler that counts. It prints a message when its cache is
// synced. It then reads resourceVersions from standard input, and prints a message when its handler has received each of
// them. The messages are those of crates/bench/src/client.rs. With the argument "store", it measures only the indexer.
// With the argument "encode", it converts Pods from JSON to protobuf.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// command is a line that this program reads.
type command struct {
	Until *struct {
		Version  uint64 `json:"version"`
		Measured bool   `json:"measured"`
	} `json:"until"`
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "store" {
		end(runStore(os.Args[2:]))
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "encode" {
		end(runEncode())
		return
	}
	server := flag.String("server", "", "URL of the server")
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of the server, in place of -server")
	contentType := flag.String("content-type", "", "content type of requests; the default of client-go is protobuf")
	strip := flag.Bool("strip-managed-fields", false, "remove managedFields from objects before they are cached")
	flag.Parse()
	var options []informers.SharedInformerOption
	if *strip {
		options = append(options, informers.WithTransform(stripManagedFields))
	}
	end(run(*server, *kubeconfig, *contentType, options))
}

func end(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "client-go: %v\n", err)
		os.Exit(1)
	}
}

func run(server, kubeconfig, contentType string, options []informers.SharedInformerOption) error {
	config := &rest.Config{Host: server}
	if kubeconfig != "" {
		loaded, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			return err
		}
		config = loaded
	}
	config.ContentType = contentType
	commands := make(chan []byte)
	go read(commands)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, options...)
	pods := factory.Core().V1().Pods().Informer()
	seen := newProgress()
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(pod any) { seen.record(pod.(*corev1.Pod)) },
		UpdateFunc: func(_, pod any) { seen.record(pod.(*corev1.Pod)) },
	}
	if _, err := pods.AddEventHandler(handler); err != nil {
		return err
	}
	ctx := context.Background()
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced) {
		return errors.New("the cache did not sync")
	}
	printLine(map[string]any{"synced": len(pods.GetStore().ListKeys())})
	for line := range commands {
		if err := handleCommand(line, seen); err != nil {
			return err
		}
	}
	return nil
}

// stripManagedFields is the transform that controller-runtime provides as TransformStripManagedFields.
func stripManagedFields(object any) (any, error) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	accessor.SetManagedFields(nil)
	return object, nil
}

// read passes each line of standard input to the channel, and exits when the input closes.
func read(commands chan<- []byte) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		commands <- []byte(lines.Text())
	}
	os.Exit(0)
}

func handleCommand(line []byte, seen *progress) error {
	if string(line) == `"relist"` {
		// client-go has no function for a relist.
		printLine(map[string]any{"relisting": false})
		return nil
	}
	var parsed command
	if err := json.Unmarshal(line, &parsed); err != nil || parsed.Until == nil {
		return fmt.Errorf("unknown command: %q", line)
	}
	printLine(map[string]any{"reached": seen.until(parsed.Until.Version, parsed.Until.Measured)})
	return nil
}

func printLine(message map[string]any) {
	line, err := json.Marshal(message)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}
