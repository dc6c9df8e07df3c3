// Package clienttls says how a client encrypts a connection and proves who it is: the same for every door.
package clienttls

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/frazil-io/frazil/libs/fault"
)

// TLS is the encryption of connections to a server.
type TLS struct {
	Enabled bool
	// CAFile holds the certificates, in PEM, that the server's must be signed by; empty means the system's.
	CAFile string
	// CertFile and KeyFile hold the client's own certificate and key, in PEM, for servers that ask for one.
	CertFile, KeyFile string
	// ServerName is the name that the server's certificate must have; empty means the host in its address.
	ServerName string
	// InsecureSkipVerify accepts any certificate: no protection against a man in the middle.
	InsecureSkipVerify bool
}

// Client reads the certificates. Errors: fault.ErrInvalid for a file that holds none, else that of reading a file.
func (t TLS) Client() (*tls.Config, error) {
	cfg := &tls.Config{ServerName: t.ServerName, InsecureSkipVerify: t.InsecureSkipVerify, MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read CA certificates: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate: %w", t.CAFile, fault.ErrInvalid)
		}
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read client certificate: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
