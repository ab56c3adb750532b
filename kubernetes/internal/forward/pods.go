package forward

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Selector is the label of the drivers' pods.
const Selector = "app.kubernetes.io/name=hoistway-csi"

// Where Kubernetes puts what a pod needs to ask its API.
var accountDirectory = "/var/run/secrets/kubernetes.io/serviceaccount"

// podOfNode asks the API of Kubernetes for the address of the driver's pod on a node.
func podOfNode(ctx context.Context, node string) (string, error) {
	var account [3]string
	for at, name := range []string{"token", "namespace", "ca.crt"} {
		text, err := os.ReadFile(filepath.Join(accountDirectory, name))
		if err != nil {
			return "", err
		}
		account[at] = strings.TrimSpace(string(text))
	}
	authority := x509.NewCertPool()
	authority.AppendCertsFromPEM([]byte(account[2]))
	where := url.URL{
		Scheme: "https",
		Host:   net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")),
		Path:   "/api/v1/namespaces/" + account[1] + "/pods",
		RawQuery: url.Values{
			"labelSelector": {Selector},
			"fieldSelector": {"spec.nodeName=" + node + ",status.phase=Running"},
		}.Encode(),
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, where.String(), nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+account[0])
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority, MinVersion: tls.VersionTLS12}}}
	defer client.CloseIdleConnections()
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the API of Kubernetes refuses to list pods: %s", answer.Status)
	}
	var pods struct {
		Items []struct {
			Status struct {
				PodIP string `json:"podIP"`
			} `json:"status"`
		} `json:"items"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&pods); err != nil {
		return "", err
	}
	for _, pod := range pods.Items {
		if pod.Status.PodIP != "" {
			return pod.Status.PodIP, nil
		}
	}
	return "", fmt.Errorf("no pod with %s runs there", Selector)
}
