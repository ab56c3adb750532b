// Package forward passes a call on to the driver of the node that has the volume. The sidecar for resizing and
// modifying runs once in a cluster and asks the driver beside it (kubernetes-csi/external-resizer#142). Both ends show
// a certificate of one authority with the driver's name.
package forward

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"hoistway/kubernetes/internal/driver"
)

// Peers are the drivers of all nodes.
type Peers struct {
	directory string
	listen    string
	port      string
	// Find returns the IP address of the driver of a node.
	Find func(ctx context.Context, node string) (address string, err error)
}

// Open checks the certificates in a directory: tls.crt, tls.key and ca.crt. They are read again for each connection, so
// they may be replaced.
func Open(directory, listen string) (*Peers, error) {
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, fmt.Errorf("--listen %q: an address such as :9809: %w", listen, err)
	}
	peers := &Peers{directory: directory, listen: listen, port: port, Find: podOfNode}
	_, err = peers.configuration()
	return peers, err
}

func (p *Peers) configuration() (*tls.Config, error) {
	own, err := tls.LoadX509KeyPair(filepath.Join(p.directory, "tls.crt"), filepath.Join(p.directory, "tls.key"))
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(p.directory, "ca.crt"))
	if err != nil {
		return nil, err
	}
	authority := x509.NewCertPool()
	if !authority.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate", filepath.Join(p.directory, "ca.crt"))
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{own},
		RootCAs:      authority,
		ClientCAs:    authority,
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ServerName:   driver.Name,
		NextProtos:   []string{"h2"},
		// The authority may have other clients as well.
		VerifyConnection: func(state tls.ConnectionState) error {
			return state.PeerCertificates[0].VerifyHostname(driver.Name)
		},
	}, nil
}

// Serve answers the calls of other nodes until the context ends.
func (p *Peers) Serve(ctx context.Context, local *driver.Driver) error {
	listener, err := net.Listen("tcp", p.listen)
	if err != nil {
		return err
	}
	return p.answer(ctx, listener, local)
}

func (p *Peers) answer(ctx context.Context, listener net.Listener, local *driver.Driver) error {
	fresh := &tls.Config{
		MinVersion:         tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return p.configuration() },
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(fresh)), grpc.ChainUnaryInterceptor(driver.Logged, driver.PassedOn))
	csi.RegisterControllerServer(server, local)
	context.AfterFunc(ctx, server.Stop)
	return server.Serve(listener)
}

// Controller connects to the driver of a node; the caller closes the connection.
func (p *Peers) Controller(ctx context.Context, node string) (csi.ControllerClient, func() error, error) {
	address, err := p.Find(ctx, node)
	if err != nil {
		return nil, nil, err
	}
	configuration, err := p.configuration()
	if err != nil {
		return nil, nil, err
	}
	connection, err := grpc.NewClient("passthrough:///"+net.JoinHostPort(address, p.port), grpc.WithTransportCredentials(credentials.NewTLS(configuration)))
	if err != nil {
		return nil, nil, err
	}
	return csi.NewControllerClient(connection), connection.Close, nil
}
