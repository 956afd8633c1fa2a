package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// runEncode reads objects of one kind in JSON from standard input, one per line. It writes each object in protobuf to standard
// output, with its length as a varint before it. The arguments are the apiVersion and the kind.
func runEncode(args []string) error {
	if len(args) != 2 {
		return errors.New("encode needs an apiVersion and a kind")
	}
	kind := schema.FromAPIVersionAndKind(args[0], args[1])
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
		encoded, err := encode(kind, line)
		if err != nil {
			return fmt.Errorf("cannot encode line %d as %s: %w", number, kind.Kind, err)
		}
		if _, err := out.Write(binary.AppendUvarint(nil, uint64(len(encoded)))); err != nil {
			return err
		}
		if _, err := out.Write(encoded); err != nil {
			return err
		}
	}
}

func encode(kind schema.GroupVersionKind, line []byte) ([]byte, error) {
	object, err := scheme.Scheme.New(kind)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(line, object); err != nil {
		return nil, err
	}
	message, ok := object.(interface{ Marshal() ([]byte, error) })
	if !ok {
		return nil, errors.New("the kind has no protobuf")
	}
	return message.Marshal()
}
