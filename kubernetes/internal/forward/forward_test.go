package forward

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hoistway/kubernetes/internal/driver"
	"hoistway/kubernetes/internal/volumes"
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func key(t *testing.T) *ecdsa.PrivateKey {
	made, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func newAuthority(t *testing.T) authority {
	own := key(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(time.Hour),
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, own.Public(), own)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return authority{certificate, own}
}

// directory has a certificate for a name.
func (a authority) directory(t *testing.T, name string) string {
	own := key(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.certificate, own.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	place := t.TempDir()
	for file, block := range map[string]*pem.Block{
		"tls.crt": {Type: "CERTIFICATE", Bytes: raw}, "tls.key": {Type: "PRIVATE KEY", Bytes: secret},
		"ca.crt": {Type: "CERTIFICATE", Bytes: a.certificate.Raw},
	} {
		if err := os.WriteFile(filepath.Join(place, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return place
}

// plugin is a driver of a node whose volumes are never attached.
func plugin(t *testing.T, node string) *driver.Driver {
	store, err := volumes.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &driver.Driver{Node: node, Store: store}
}

// peers is a driver that passes calls on to the driver of `b` at a listener of the loopback.
func peers(t *testing.T, directory string, address net.Addr) *Peers {
	_, port, _ := net.SplitHostPort(address.String())
	found, err := Open(directory, ":"+port)
	if err != nil {
		t.Fatal(err)
	}
	found.Find = func(_ context.Context, node string) (string, error) {
		if node != "b" && node != "c" {
			return "", errors.New("no such node")
		}
		return "127.0.0.1", nil
	}
	return found
}

func TestCallsArePassedOnToTheNodeOfTheVolume(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	trusted := newAuthority(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := plugin(t, "b")
	there := peers(t, trusted.directory(t, driver.Name), listener.Addr())
	b.Owner = there
	go func() { _ = there.answer(ctx, listener, b) }()
	a := plugin(t, "a")
	a.Owner = peers(t, trusted.directory(t, driver.Name), listener.Addr())

	created, err := b.CreateVolume(ctx, &csi.CreateVolumeRequest{
		Name: "pvc-1", CapacityRange: &csi.CapacityRange{RequiredBytes: 1 << 20},
		VolumeCapabilities: []*csi.VolumeCapability{{
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
			AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	change := func(from *driver.Driver, volume string) error {
		_, err := from.ControllerModifyVolume(ctx, &csi.ControllerModifyVolumeRequest{
			VolumeId: volume, MutableParameters: map[string]string{"weight": "700"},
		})
		return err
	}
	if err := change(a, created.GetVolume().GetVolumeId()); err != nil {
		t.Fatal(err)
	}
	if record, err := b.Store.Load("pvc-1"); err != nil || record.Parameters["weight"] != 700 {
		t.Errorf("%+v, %v", record, err)
	}
	// The answer of the other driver comes back as it is.
	if err := change(a, "pvc-2.b"); status.Code(err) != codes.NotFound {
		t.Errorf("%v", err)
	}
	// A call that was passed on is not passed on again: the driver there has another name than the volume's node.
	if err := change(a, "pvc-1.c"); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("%v", err)
	}
	if err := change(a, "pvc-1.d"); status.Code(err) != codes.Unavailable {
		t.Errorf("%v", err)
	}
	// Strangers: of another authority, and of this one with another name.
	for _, directory := range []string{newAuthority(t).directory(t, driver.Name), trusted.directory(t, "other")} {
		a.Owner = peers(t, directory, listener.Addr())
		if err := change(a, created.GetVolume().GetVolumeId()); status.Code(err) != codes.Unavailable {
			t.Errorf("%v", err)
		}
	}
	a.Owner = nil
	if err := change(a, created.GetVolume().GetVolumeId()); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "--tls") {
		t.Errorf("%v", err)
	}
}

// The script of the how-to makes what both ends take.
func TestCertificatesOfTheScript(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("no program openssl")
	}
	place := t.TempDir()
	if said, err := exec.Command("../../certificates", place).CombinedOutput(); err != nil || !strings.Contains(string(said), "hoistway-csi-tls") {
		t.Fatalf("%v: %s", err, said)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	both := peers(t, place, listener.Addr())
	b := plugin(t, "b")
	go func() { _ = both.answer(ctx, listener, b) }()
	a := plugin(t, "a")
	a.Owner = both
	_, err = a.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: "pvc-1.b"})
	if err != nil {
		t.Error(err)
	}
}

func TestThePodOfANodeIsAskedFor(t *testing.T) {
	var asked url.URL
	var token string
	answer := `{"items": [{"status": {"podIP": ""}}, {"status": {"podIP": "10.0.0.7"}}]}`
	api := httptest.NewTLSServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		asked, token = *request.URL, request.Header.Get("Authorization")
		_, _ = writer.Write([]byte(answer))
	}))
	defer api.Close()
	place := t.TempDir()
	for name, text := range map[string][]byte{
		"token": []byte("secret\n"), "namespace": []byte("kube-system"),
		"ca.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw}),
	} {
		if err := os.WriteFile(filepath.Join(place, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	defer func(before string) { accountDirectory = before }(accountDirectory)
	accountDirectory = place
	host, port, _ := net.SplitHostPort(api.Listener.Addr().String())
	t.Setenv("KUBERNETES_SERVICE_HOST", host)
	t.Setenv("KUBERNETES_SERVICE_PORT", port)
	address, err := podOfNode(context.Background(), "b")
	if err != nil || address != "10.0.0.7" {
		t.Errorf("%s, %v", address, err)
	}
	if asked.Path != "/api/v1/namespaces/kube-system/pods" || token != "Bearer secret" ||
		asked.Query().Get("fieldSelector") != "spec.nodeName=b,status.phase=Running" || asked.Query().Get("labelSelector") != Selector {
		t.Errorf("%v, %s", asked, token)
	}
	answer = `{"items": []}`
	if _, err := podOfNode(context.Background(), "b"); err == nil || !strings.Contains(err.Error(), "no pod with") {
		t.Errorf("%v", err)
	}
}
