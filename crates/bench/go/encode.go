package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
)

// runEncode reads Pods in JSON from standard input, one per line. It writes each Pod in protobuf to standard output, with its
// length as a varint before it.
func runEncode() error {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	for number := 1; ; number++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return out.Flush()
		}
		if err != nil {
			return err
		}
		var pod corev1.Pod
		if err := json.Unmarshal(line, &pod); err != nil {
			return fmt.Errorf("line %d is not a Pod: %w", number, err)
		}
		encoded, err := pod.Marshal()
		if err != nil {
			return fmt.Errorf("cannot encode line %d: %w", number, err)
		}
		if _, err := out.Write(binary.AppendUvarint(nil, uint64(len(encoded)))); err != nil {
			return err
		}
		if _, err := out.Write(encoded); err != nil {
			return err
		}
	}
}
