package main

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
)

func runEtcd(args []string) error {
	flags := flag.NewFlagSet("etcd", flag.ExitOnError)
	dataDir := flags.String("data-dir", "", "directory of the data (required)")
	port := flags.Int("client-port", 0, "port for clients; 0 picks a free one")
	reserved := flags.Bool("port-reserved", false, "the caller holds the port with SO_REUSEPORT")
	if _, err := parse(flags, args, "data-dir"); err != nil {
		return err
	}

	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, syscall.SIGTERM, syscall.SIGINT)
	stopWithStdin()

	server, err := embed.StartEtcd(etcdConfig(*dataDir, *port, *reserved))
	if err != nil {
		return err
	}
	// Do not call server.Close, because it waits 7 s for the watches of a running apiserver. All
	// acknowledged writes are in the log, so an immediate exit loses no data.
	select {
	case <-server.Server.ReadyNotify():
		fmt.Printf("ready http://%s\n", server.Clients[0].Addr())
	case err := <-server.Err():
		return err
	case <-stopped:
		return nil
	}
	select {
	case err := <-server.Err():
		return err
	case <-stopped:
		return nil
	}
}

func etcdConfig(dataDir string, port int, reserved bool) *embed.Config {
	config := embed.NewConfig()
	config.Dir = dataDir
	config.LogLevel = "error"
	config.UnsafeNoFsync = true
	// envtest and kubeadm also set this interval. Without it, bookmarks of an idle resource are late by
	// minutes.
	config.WatchProgressNotifyInterval = 5 * time.Second
	config.SocketOpts.ReusePort = reserved

	client := loopbackURL(port)
	// No process connects to the peer port of a single member, so any port works. The advertised address
	// is part of the stored membership and does not change.
	peer := loopbackURL(0)
	config.ListenClientUrls = []url.URL{client}
	config.AdvertiseClientUrls = []url.URL{client}
	config.ListenPeerUrls = []url.URL{peer}
	config.AdvertisePeerUrls = []url.URL{peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	return config
}

func loopbackURL(port int) url.URL {
	return url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", port)}
}

// runCompact does the same as the compactor of kube-apiserver: it writes the revision to its key, which
// notifies all apiservers, and compacts.
func runCompact(args []string) error {
	flags := flag.NewFlagSet("compact", flag.ExitOnError)
	endpoint := flags.String("etcd", "", "URL of etcd (required)")
	if _, err := parse(flags, args, "etcd"); err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	client, err := clientv3.New(clientv3.Config{Context: ctx, Endpoints: []string{*endpoint}})
	if err != nil {
		return err
	}
	defer client.Close()

	const key = "compact_rev_key"
	current, err := client.Get(ctx, key)
	if err != nil {
		return err
	}
	revision := current.Header.Revision
	if _, err := client.Put(ctx, key, strconv.FormatInt(revision, 10)); err != nil {
		return err
	}
	if _, err := client.Compact(ctx, revision, clientv3.WithCompactPhysical()); err != nil {
		return err
	}
	fmt.Printf("compacted %d\n", revision)
	return nil
}
