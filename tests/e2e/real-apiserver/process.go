package main

import (
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stopGrace is the time limit for a shutdown after stdin closes.
const stopGrace = 10 * time.Second

// stopWithStdin stops this process if stdin is a pipe and its other end closes. The kernel closes it
// even if the parent process is killed. A terminal and /dev/null have no effect.
func stopWithStdin() {
	info, err := os.Stdin.Stat()
	if err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		time.Sleep(stopGrace)
		os.Exit(1)
	}()
}

// reservePort binds a free loopback port with SO_REUSEPORT and never listens on it. The port stays
// reserved while no server runs, and a server that listens with SO_REUSEPORT gets all connections.
func reservePort() (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return 0, err
	}
	unix.CloseOnExec(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return 0, err
	}
	loopback := &unix.SockaddrInet4{Addr: [4]byte(net.IPv4(127, 0, 0, 1).To4())}
	if err := unix.Bind(fd, loopback); err != nil {
		return 0, err
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		return 0, err
	}
	return bound.(*unix.SockaddrInet4).Port, nil
}
