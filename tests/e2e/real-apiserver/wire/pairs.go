package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// pair contains one object as protobuf and as JSON.
type pair struct {
	Kind     string          `json:"kind"`
	Protobuf []byte          `json:"protobuf"`
	Object   json.RawMessage `json:"object"`
}

// writePairs prints random objects: as protobuf, and as the JSON that a Go server decodes from the
// protobuf.
func writePairs(out *bufio.Writer, types types, seed uint64, each int) error {
	codec := protobuf.NewSerializer(types.scheme, types.scheme)
	lines := json.NewEncoder(out)
	fill := filler{rand: rand.New(rand.NewPCG(seed, 0)), met: map[field]bool{}}
	for _, kind := range types.kinds {
		for range each {
			object, err := types.scheme.New(kind)
			if err != nil {
				return err
			}
			fill.object(object)
			object.GetObjectKind().SetGroupVersionKind(kind)
			var body bytes.Buffer
			if err := codec.Encode(object, &body); err != nil {
				return fmt.Errorf("%v: %w", kind, err)
			}
			read, _, err := codec.Decode(body.Bytes(), nil, nil)
			if err != nil {
				return fmt.Errorf("%v: %w", kind, err)
			}
			text, err := json.Marshal(read)
			if err != nil {
				return fmt.Errorf("%v: %w", kind, err)
			}
			name := kind.GroupVersion().String() + " " + kind.Kind
			if err := lines.Encode(pair{Kind: name, Protobuf: body.Bytes(), Object: text}); err != nil {
				return err
			}
		}
	}
	for of, had := range fill.met {
		if !had {
			return fmt.Errorf("%v.%s: field never had a value; increase the number of objects", of.message, of.message.Field(of.index).Name)
		}
	}
	return nil
}
