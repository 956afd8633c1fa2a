// client-go is client-go's part of the comparison: a shared informer on Pods as programs in Go have it, with one handler
// that counts. It says when its cache is in sync; then it is told versions on its standard input, and says when its
// handler has seen each. Orders and reports are those of crates/bench/src/client.rs. Called with "store" it measures
// client-go's indexer alone.
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
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// order is what this program is told.
type order struct {
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
	server := flag.String("server", "", "URL of the server")
	contentType := flag.String("content-type", "", "of bodies; empty leaves it to client-go, which takes protobuf")
	flag.Parse()
	end(run(*server, *contentType))
}

func end(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "client-go: %v\n", err)
		os.Exit(1)
	}
}

func run(server, contentType string) error {
	config := &rest.Config{Host: server}
	config.ContentType = contentType
	orders := make(chan []byte)
	go read(orders)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	seen := newProgress()
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(pod any) { seen.saw(pod.(*corev1.Pod)) },
		UpdateFunc: func(_, pod any) { seen.saw(pod.(*corev1.Pod)) },
	}
	if _, err := pods.AddEventHandler(handler); err != nil {
		return err
	}
	ctx := context.Background()
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced) {
		return errors.New("not in sync")
	}
	say(map[string]any{"synced": len(pods.GetStore().ListKeys())})
	for line := range orders {
		if err := obey(line, seen); err != nil {
			return err
		}
	}
	return nil
}

// read gives each line of the standard input, and ends the program with it.
func read(orders chan<- []byte) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		orders <- []byte(lines.Text())
	}
	os.Exit(0)
}

func obey(line []byte, seen *progress) error {
	if string(line) == `"relist"` {
		// There is no way to ask for it.
		say(map[string]any{"relisting": false})
		return nil
	}
	var told order
	if err := json.Unmarshal(line, &told); err != nil || told.Until == nil {
		return fmt.Errorf("no order: %q", line)
	}
	say(map[string]any{"reached": seen.until(told.Until.Version, told.Until.Measured)})
	return nil
}

func say(report map[string]any) {
	line, err := json.Marshal(report)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}
