// Command validate decodes manifests from standard input as the API server does that validates
// fields strictly: an unknown or duplicate field, or a value of another type, is an error. It is a
// module of its own, so that chronik does not depend on Kubernetes. It does not know how the
// manifests are made. kubeconform would need schemas from the network, and the types of the API say
// the same.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	strict "sigs.k8s.io/yaml"
)

func main() {
	n, err := validate(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "validate:", err)
		os.Exit(1)
	}
	fmt.Printf("%d objects are valid\n", n)
}

func validate(in io.Reader) (n int, err error) {
	for r := yaml.NewYAMLReader(bufio.NewReader(in)); ; {
		text, err := r.Read()
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		var head struct{ Kind, APIVersion string }
		if err := strict.Unmarshal(text, &head); err != nil {
			return n, err
		}
		var object any
		switch head.APIVersion + " " + head.Kind {
		case " ": // comments
			continue
		case "monitoring.coreos.com/v1 ServiceMonitor": // the operator's own
			continue
		case "v1 ConfigMap":
			object = &core.ConfigMap{}
		case "v1 Pod":
			object = &core.Pod{}
		case "v1 Service":
			object = &core.Service{}
		case "apps/v1 StatefulSet":
			object = &apps.StatefulSet{}
		case "policy/v1 PodDisruptionBudget":
			object = &policy.PodDisruptionBudget{}
		default:
			return n, fmt.Errorf("unexpected object %s %s", head.APIVersion, head.Kind)
		}
		if err := strict.UnmarshalStrict(text, object); err != nil {
			return n, fmt.Errorf("%s: %w", head.Kind, err)
		}
		n++
	}
}
