package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func runAll(args []string) error {
	flags := flag.NewFlagSet("all", flag.ExitOnError)
	dir := flags.String("dir", "", "directory for data, logs and kubeconfig (required)")
	port := flags.Int("port", 0, "port of the apiserver; 0 selects a free port")
	controllers := flags.Bool("controllers", false, "also start the controllers")
	extra, err := parse(flags, args, "dir")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*dir, 0o700); err != nil {
		return err
	}

	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, syscall.SIGTERM, syscall.SIGINT)
	stopWithStdin()

	family := &family{dir: *dir, exited: make(chan error, 3), stopped: stopped}
	defer family.stop()
	etcd, err := family.start("etcd", "--data-dir", filepath.Join(*dir, "etcd"))
	if err != nil {
		return ignoreStop(err)
	}
	kubeconfig, err := family.start("apiserver", append([]string{
		"--etcd", etcd, "--dir", *dir, "--port", strconv.Itoa(*port), "--"}, extra...)...)
	if err != nil {
		return ignoreStop(err)
	}
	if *controllers {
		if err := family.spawn("controllers", "--kubeconfig", kubeconfig); err != nil {
			return err
		}
	}
	fmt.Printf("etcd %s\nready %s\n", etcd, kubeconfig)
	return ignoreStop(family.wait())
}

// family contains the child processes of one "all". The stdin of each child is a pipe from this
// process, so the children exit even if this process is killed.
type family struct {
	dir      string
	children []*child
	exited   chan error
	stopped  <-chan os.Signal
}

type child struct {
	command *exec.Cmd
	stdin   io.Closer
	ready   <-chan string
	done    chan struct{}
}

var errStopped = errors.New("stopped")

func ignoreStop(err error) error {
	if err == errStopped {
		return nil
	}
	return err
}

// start starts a child and returns the text of its ready line.
func (f *family) start(name string, args ...string) (string, error) {
	if err := f.spawn(name, args...); err != nil {
		return "", err
	}
	select {
	case ready := <-f.children[len(f.children)-1].ready:
		return ready, nil
	case err := <-f.exited:
		return "", err
	case <-f.stopped:
		return "", errStopped
	}
}

func (f *family) spawn(name string, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(f.dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	command := exec.Command(self, append([]string{name}, args...)...)
	command.Stderr = log
	stdin, err := command.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	ready := make(chan string, 1)
	member := &child{command: command, stdin: stdin, ready: ready, done: make(chan struct{})}
	f.children = append(f.children, member)
	go func() {
		defer close(member.done)
		readReady(stdout, ready)
		f.exited <- fmt.Errorf("%s exited (%v); see its log %s", name, command.Wait(), log.Name())
	}()
	return nil
}

func readReady(stdout io.Reader, ready chan<- string) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if line, found := strings.CutPrefix(lines.Text(), "ready "); found {
			ready <- line
			break
		}
	}
	_, _ = io.Copy(io.Discard, stdout)
}

func (f *family) wait() error {
	select {
	case err := <-f.exited:
		return err
	case <-f.stopped:
		return errStopped
	}
}

// stop stops the children in reverse order, because an apiserver without its etcd cannot shut down
// quickly.
func (f *family) stop() {
	for i := len(f.children) - 1; i >= 0; i-- {
		member := f.children[i]
		_ = member.stdin.Close()
		select {
		case <-member.done:
		case <-time.After(stopGrace):
			_ = member.command.Process.Kill()
			<-member.done
		}
	}
}
