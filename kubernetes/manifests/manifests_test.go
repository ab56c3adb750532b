// Package manifests checks the manifests against the types of Kubernetes' own API, and against the programs that they
// name.
package manifests

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	storage "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/yaml"
	kyaml "sigs.k8s.io/yaml"

	"hoistway/kubernetes/internal/driver"
	"hoistway/kubernetes/internal/forward"
	"hoistway/kubernetes/internal/parameters"
	"hoistway/kubernetes/internal/podweight"
)

const kustomization = "kustomization.yaml"

// objects decodes the documents of a file; unknown and repeated fields are errors.
func objects(t *testing.T, name string, text []byte) ([]runtime.Object, error) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apps.AddToScheme, core.AddToScheme, rbac.AddToScheme, storage.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	found := []runtime.Object{}
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			return nil, errors.Join(errors.New(name), err)
		}
		found = append(found, object)
	}
}

// all are the objects of all manifests.
func all(t *testing.T) []runtime.Object {
	t.Helper()
	names, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := []runtime.Object{}
	for _, name := range names {
		if name == kustomization {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		more, err := objects(t, name, text)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, more...)
	}
	return found
}

func of[Kind runtime.Object](t *testing.T) []Kind {
	t.Helper()
	found := []Kind{}
	for _, object := range all(t) {
		if one, ok := object.(Kind); ok {
			found = append(found, one)
		}
	}
	if len(found) == 0 {
		t.Fatalf("no %T", *new(Kind))
	}
	return found
}

func TestManifestsAreOfKubernetesTypes(t *testing.T) {
	for _, object := range all(t) {
		accessor, err := meta.Accessor(object)
		if err != nil {
			t.Fatal(err)
		}
		if wrong := validation.IsDNS1123Subdomain(accessor.GetName()); wrong != nil {
			t.Errorf("%q: %v", accessor.GetName(), wrong)
		}
	}
	// The check can fail.
	text, err := os.ReadFile("csidriver.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := objects(t, "planted", bytes.Replace(text, []byte("attachRequired"), []byte("attachRequried"), 1)); err == nil {
		t.Error("an unknown field was taken")
	}
}

func TestKustomizationNamesItsFiles(t *testing.T) {
	text, err := os.ReadFile(kustomization)
	if err != nil {
		t.Fatal(err)
	}
	var wanted struct {
		APIVersion string           `json:"apiVersion"`
		Kind       string           `json:"kind"`
		Namespace  string           `json:"namespace"`
		Resources  []string         `json:"resources"`
		Images     []map[string]any `json:"images"`
	}
	if err := kyaml.UnmarshalStrict(text, &wanted); err != nil {
		t.Fatal(err)
	}
	for _, name := range wanted.Resources {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
	if !slices.Contains(wanted.Resources, "daemonset.yaml") || len(wanted.Images) != 1 {
		t.Errorf("%+v", wanted)
	}
}

func TestNamesAreThoseOfThePrograms(t *testing.T) {
	if found := of[*storage.CSIDriver](t)[0].Name; found != driver.Name {
		t.Errorf("CSIDriver %s", found)
	}
	for _, class := range of[*storage.StorageClass](t) {
		if _, err := parameters.Check(class.Parameters); err != nil || class.Provisioner != driver.Name {
			t.Errorf("%s: %s, %v", class.Name, class.Provisioner, err)
		}
	}
	for _, class := range of[*storage.VolumeAttributesClass](t) {
		if _, err := parameters.Check(class.Parameters); err != nil || class.DriverName != driver.Name {
			t.Errorf("%s: %s, %v", class.Name, class.DriverName, err)
		}
	}
	if wrong := validation.IsQualifiedName(podweight.Annotation); wrong != nil {
		t.Errorf("%s: %v", podweight.Annotation, wrong)
	}
	if wrong := validation.IsQualifiedName(driver.TopologyKey); wrong != nil {
		t.Errorf("%s: %v", driver.TopologyKey, wrong)
	}
	selector, err := labels.Parse(forward.Selector)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, set := range of[*apps.DaemonSet](t) {
		if selector.Matches(labels.Set(set.Spec.Template.Labels)) {
			found++
		}
		for key, value := range set.Spec.Selector.MatchLabels {
			if set.Spec.Template.Labels[key] != value {
				t.Errorf("%s selects other pods than its own", set.Name)
			}
		}
	}
	if found != 1 {
		t.Errorf("%d DaemonSets have the label %s", found, forward.Selector)
	}
}

// Volumes, mounts and options fit together.
func TestContainersAreComplete(t *testing.T) {
	for _, set := range of[*apps.DaemonSet](t) {
		pod := set.Spec.Template.Spec
		for _, container := range append(slices.Clone(pod.InitContainers), pod.Containers...) {
			for _, mount := range container.VolumeMounts {
				if !slices.ContainsFunc(pod.Volumes, func(volume core.Volume) bool { return volume.Name == mount.Name }) {
					t.Errorf("%s: container %s mounts %s, which is no volume", set.Name, container.Name, mount.Name)
				}
			}
			options(t, container)
		}
	}
}

// options checks the options of our own programs.
func options(t *testing.T, container core.Container) {
	t.Helper()
	if len(container.Command) == 0 || !strings.HasPrefix(container.Command[0], "hoistway-") {
		return
	}
	program, err := exec.LookPath(container.Command[0])
	if err != nil {
		t.Skipf("no program %s; ./check csi builds it", container.Command[0])
	}
	usage, _ := exec.Command(program, "-help").CombinedOutput()
	for _, argument := range append(slices.Clone(container.Command[1:]), container.Args...) {
		name, _, _ := strings.Cut(argument, "=")
		if !strings.Contains(string(usage), "  "+name+" ") && !strings.Contains(string(usage), "  "+name+"\n") {
			t.Errorf("%s has no option %s", container.Command[0], name)
		}
	}
}

// The two claims of the example may share a disk: both sets want one class of storage, and known classes of attributes.
func TestExampleHasTwoWeights(t *testing.T) {
	known := map[string]string{}
	for _, class := range of[*storage.VolumeAttributesClass](t) {
		known[class.Name] = class.Parameters["weight"]
	}
	weights := []string{}
	for _, set := range of[*apps.StatefulSet](t) {
		for _, claim := range set.Spec.VolumeClaimTemplates {
			weights = append(weights, known[*claim.Spec.VolumeAttributesClassName])
		}
	}
	if !slices.Equal(weights, []string{"800", "100"}) {
		t.Errorf("%v", weights)
	}
}
