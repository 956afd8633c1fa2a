package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/csv"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// serverFiles contains the files of an apiserver. A restart uses the same keys and tokens, so clients
// remain valid.
type serverFiles struct {
	certDir           string
	serviceAccountKey string
	tokens            string
	kubeconfig        string
	adminToken        string
	nobodyToken       string
}

func prepareDir(dir string) (*serverFiles, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	files := &serverFiles{
		certDir:           filepath.Join(dir, "certs"),
		serviceAccountKey: serviceAccountKeyIn(dir),
		tokens:            filepath.Join(dir, "tokens.csv"),
		kubeconfig:        filepath.Join(dir, "kubeconfig"),
	}
	if err := os.MkdirAll(files.certDir, 0o700); err != nil {
		return nil, err
	}
	if err := createOnce(files.serviceAccountKey, newServiceAccountKey); err != nil {
		return nil, err
	}
	if err := createOnce(files.tokens, newTokens); err != nil {
		return nil, err
	}
	return files, files.readTokens()
}

func serviceAccountKeyIn(dir string) string {
	return filepath.Join(dir, "service-account.key")
}

func createOnce(path string, content func() ([]byte, error)) error {
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	data, err := content()
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

func newServiceAccountKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// newTokens returns the format of kube-apiserver: token, user, uid, groups. No RBAC rule contains the
// user nobody.
func newTokens() ([]byte, error) {
	lines := fmt.Sprintf("%s,admin,admin,system:masters\n%s,nobody,nobody\n", rand.Text(), rand.Text())
	return []byte(lines), nil
}

func (f *serverFiles) readTokens() error {
	data, err := os.ReadFile(f.tokens)
	if err != nil {
		return err
	}
	reader := csv.NewReader(bytes.NewReader(data))
	reader.FieldsPerRecord = -1
	lines, err := reader.ReadAll()
	if err != nil {
		return err
	}
	if len(lines) != 2 {
		return fmt.Errorf("%s: expected 2 lines, found %d", f.tokens, len(lines))
	}
	f.adminToken, f.nobodyToken = lines[0][0], lines[1][0]
	return nil
}

// ca returns the certificate of the authority that kube-apiserver created. The file contains it after the
// certificate of the server.
func (f *serverFiles) ca() ([]byte, error) {
	path := filepath.Join(f.certDir, "apiserver.crt")
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var last *pem.Block
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		last = block
	}
	if last == nil {
		return nil, fmt.Errorf("%s: file contains no certificate", path)
	}
	return pem.EncodeToMemory(last), nil
}

// writeKubeconfig writes the contexts "admin", which is the current context, and "nobody". It replaces
// the file atomically, so readers get the old or the new file.
func (f *serverFiles) writeKubeconfig(url string) error {
	ca, err := f.ca()
	if err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["real"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: ca}
	for user, token := range map[string]string{"admin": f.adminToken, "nobody": f.nobodyToken} {
		config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token}
		config.Contexts[user] = &clientcmdapi.Context{Cluster: "real", AuthInfo: user, Namespace: "default"}
	}
	config.CurrentContext = "admin"
	written := f.kubeconfig + ".new"
	if err := clientcmd.WriteToFile(*config, written); err != nil {
		return err
	}
	return os.Rename(written, f.kubeconfig)
}
