package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// readyDeadline is the time limit from the start until /readyz succeeds.
const readyDeadline = 60 * time.Second

func runAPIServer(args []string) error {
	flags := flag.NewFlagSet("apiserver", flag.ExitOnError)
	etcd := flags.String("etcd", "", "URL of etcd (required)")
	port := flags.Int("port", 0, "port; 0 picks a free one")
	reserved := flags.Bool("port-reserved", false, "the caller holds the port with SO_REUSEPORT")
	path := flags.String("dir", "", "directory for certificate, keys, tokens and kubeconfig (required)")
	extra, err := parse(flags, args, "etcd", "dir")
	if err != nil {
		return err
	}

	files, err := prepareDir(*path)
	if err != nil {
		return err
	}
	if *port == 0 {
		if *port, err = reservePort(); err != nil {
			return err
		}
		*reserved = true
	}
	stopWithStdin()
	go announce(files, *port)

	command := app.NewAPIServerCommand()
	command.SetArgs(append([]string{
		"--etcd-servers=" + *etcd,
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(*port),
		"--permit-port-sharing=" + strconv.FormatBool(*reserved),
		"--cert-dir=" + files.certDir,
		"--token-auth-file=" + files.tokens,
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + files.serviceAccountKey,
		"--service-account-signing-key-file=" + files.serviceAccountKey,
		"--service-cluster-ip-range=10.0.0.0/24",
		"--allow-privileged=true",
		// Pods must be accepted before a controller has created service accounts. A
		// loopback address cannot be an endpoint of the service "kubernetes".
		"--disable-admission-plugins=ServiceAccount",
		"--endpoint-reconciler-type=none",
		// By default a shutdown waits for open watches as long as for any request.
		"--shutdown-watch-termination-grace-period=1s",
	}, extra...))
	os.Exit(cli.Run(command))
	return nil
}

// announce prints the ready line when the apiserver responds, and exits if the apiserver is not ready
// in time.
func announce(files *serverFiles, port int) {
	url := "https://127.0.0.1:" + strconv.Itoa(port)
	ctx, cancel := context.WithTimeout(context.Background(), readyDeadline)
	defer cancel()
	for {
		err := checkReady(ctx, files, url)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			fail("not ready within %v: %v", readyDeadline, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err := files.writeKubeconfig(url); err != nil {
		fail("writing the kubeconfig: %v", err)
	}
	fmt.Printf("ready %s\n", files.kubeconfig)
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "real-apiserver apiserver: "+format+"\n", args...)
	os.Exit(1)
}

// checkReady also requests the namespace "default", which the apiserver creates shortly after /readyz
// succeeds.
func checkReady(ctx context.Context, files *serverFiles, url string) error {
	ca, err := files.ca()
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	for _, path := range []string{"/readyz", "/api/v1/namespaces/default"} {
		if err := get(ctx, transport, url+path, files.adminToken); err != nil {
			return err
		}
	}
	return nil
}

func get(ctx context.Context, transport *http.Transport, url, token string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", request.URL.Path, response.Status, body)
	}
	return nil
}
