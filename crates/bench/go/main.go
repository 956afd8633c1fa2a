// The program client-go uses a shared informer with one handler that counts. It prints a message when its cache is
// synced. It then reads resourceVersions from standard input, and prints a message when its handler has received each of
// them. The messages are those of crates/bench/src/client.rs. With the argument "store", it measures only the indexer.
// With the argument "encode", it converts objects from JSON to protobuf.
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
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
		end(runEncode(os.Args[2:]))
		return
	}
	server := flag.String("server", "", "URL of the server")
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of the server, in place of -server")
	contentType := flag.String("content-type", "", "content type of requests; the default of client-go is protobuf")
	strip := flag.Bool("strip-managed-fields", false, "remove managedFields from objects before they are cached")
	metadataOnly := flag.Bool("metadata-only", false, "cache only the metadata of Pods, without managedFields")
	resource := flag.String("resource", "pods", "resource of the informer")
	flag.Parse()
	var options []informers.SharedInformerOption
	if *strip {
		options = append(options, informers.WithTransform(stripManagedFields))
	}
	end(run(*server, *kubeconfig, *contentType, *resource, *metadataOnly, options))
}

func end(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "client-go: %v\n", err)
		os.Exit(1)
	}
}

func run(server, kubeconfig, contentType, resource string, metadataOnly bool, options []informers.SharedInformerOption) error {
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
	var objects cache.SharedIndexInformer
	if metadataOnly {
		objects, err = podMetadata(config)
	} else {
		objects, err = informer(factory, config, resource)
	}
	if err != nil {
		return err
	}
	seen := newProgress()
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { seen.record(object.(metav1.Object)) },
		UpdateFunc: func(_, object any) { seen.record(object.(metav1.Object)) },
	}
	if _, err := objects.AddEventHandler(handler); err != nil {
		return err
	}
	ctx := context.Background()
	factory.StartWithContext(ctx)
	if metadataOnly || resource == "databases" {
		go objects.RunWithContext(ctx)
	}
	if !cache.WaitForCacheSync(ctx.Done(), objects.HasSynced) {
		return errors.New("the cache did not sync")
	}
	printLine(map[string]any{"synced": len(objects.GetStore().ListKeys())})
	for line := range commands {
		if err := handleCommand(line, seen); err != nil {
			return err
		}
	}
	return nil
}

// informer creates the informer of a resource.
func informer(factory informers.SharedInformerFactory, config *rest.Config, resource string) (cache.SharedIndexInformer, error) {
	switch resource {
	case "pods":
		return factory.Core().V1().Pods().Informer(), nil
	case "configmaps":
		return factory.Core().V1().ConfigMaps().Informer(), nil
	case "secrets":
		return factory.Core().V1().Secrets().Informer(), nil
	case "nodes":
		return factory.Core().V1().Nodes().Informer(), nil
	case "deployments":
		return factory.Apps().V1().Deployments().Informer(), nil
	case "replicasets":
		return factory.Apps().V1().ReplicaSets().Informer(), nil
	case "databases":
		return databases(config)
	}
	return nil, fmt.Errorf("unknown resource %q", resource)
}

// podMetadata creates an informer with the change that `kubectl informer cost` advises for a program that reads only metadata.
func podMetadata(config *rest.Config) (cache.SharedIndexInformer, error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory := metadatainformer.NewSharedInformerFactoryWithOptions(client, 0, metadatainformer.WithTransform(stripManagedFields))
	return factory.ForResource(corev1.SchemeGroupVersion.WithResource("pods")).Informer(), nil
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
