package v1beta1

import (
	"fmt"
	"strconv"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/conversion"

	examplev1 "kube-informer.examples/operators/database/controller-runtime/api/v1"
)

// ConvertTo converts this Database to the hub version.
func (src *Database) ConvertTo(hub conversion.Hub) error {
	dst := hub.(*examplev1.Database)
	storage, err := strconv.ParseUint(strings.TrimSuffix(src.Spec.Size, "Gi"), 10, 32)
	if err != nil {
		return fmt.Errorf("spec.size %q is not like 10Gi: %w", src.Spec.Size, err)
	}
	dst.ObjectMeta = src.ObjectMeta
	dst.Spec = examplev1.DatabaseSpec{StorageGiB: int64(storage), Replicas: src.Spec.Replicas}
	return nil
}

// ConvertFrom converts the hub version to this version.
func (dst *Database) ConvertFrom(hub conversion.Hub) error {
	src := hub.(*examplev1.Database)
	dst.ObjectMeta = src.ObjectMeta
	dst.Spec = DatabaseSpec{Size: fmt.Sprintf("%dGi", src.Spec.StorageGiB), Replicas: src.Spec.Replicas}
	return nil
}
