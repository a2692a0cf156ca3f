// Package s3store stores objects in a bucket of an S3-compatible store.
//
// It needs five requests of the protocol: PutObject, GetObject with a range, CopyObject,
// ListObjectsV2 and DeleteObject. Conditional requests, multipart uploads and versions are not
// among them, so that every compatible store is good enough. The store verifies the MD5 checksum of
// each upload. Every call is exactly one attempt: objects.Repeat repeats it. A store that hangs
// holds at most 16 connections. The package does not know what an object contains.
package s3store

import (
	"context"
	"crypto/md5" //nolint:gosec // S3 verifies this checksum of an upload; the signature has SHA-256
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/security/secret"
)

// Keys are what requests are signed with.
type Keys struct {
	ID     string
	Secret secret.Secret
	// Session is the session token of temporary keys, otherwise empty.
	Session secret.Secret
}

// Options are a Store's. Endpoint, Bucket and Keys must be set.
type Options struct {
	// Endpoint is the URL of the store, without a path: http://host:port or https://host:port.
	Endpoint string
	Bucket   string
	// Prefix begins the keys of all objects; it is empty or ends in a slash.
	Prefix string
	// Region is that of the signatures; empty means us-east-1, which stores without regions accept.
	Region string
	// Keys returns the keys. Every request calls it, so that new keys have effect at once: it must
	// not block for long.
	Keys func() (Keys, error)
	// TLS is the configuration of connections for https.
	TLS *tls.Config
}

// maxConns bounds the connections to the store, and with them what a store that hangs holds.
const maxConns = 16

// Store is a prefix of a bucket. See objects.Store for its methods.
type Store struct {
	client    *minio.Core
	transport *http.Transport
	bucket    string
	prefix    string
	where     string // for messages
}

var _ objects.Store = (*Store)(nil)

// Open returns the store. It makes no request: the first call finds out whether the store answers.
func Open(o Options) (*Store, error) {
	at, err := url.Parse(o.Endpoint)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" || strings.Trim(at.Path, "/") != "" || at.User != nil {
		return nil, fmt.Errorf("endpoint %q of the object store is not a URL like https://host:9000", o.Endpoint)
	}
	if err := objects.CheckPrefix(o.Prefix); err != nil {
		return nil, fmt.Errorf("prefix in the bucket: %w", err)
	}
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:       o.TLS,
		TLSHandshakeTimeout:   10 * time.Second,
		MaxConnsPerHost:       maxConns,
		MaxIdleConnsPerHost:   maxConns,
		IdleConnTimeout:       time.Minute,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true, // the bytes of an object are never changed on the way
		WriteBufferSize:       64 << 10,
		ReadBufferSize:        64 << 10,
	}
	region := o.Region
	if region == "" {
		region = "us-east-1"
	}
	core, err := minio.NewCore(at.Host, &minio.Options{
		Creds: credentials.New(provider{o.Keys}), Secure: at.Scheme == "https", Transport: transport, Region: region, MaxRetries: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("open the object store %s: %w", o.Endpoint, err)
	}
	return &Store{client: core, transport: transport, bucket: o.Bucket, prefix: o.Prefix, where: o.Endpoint + "/" + o.Bucket}, nil
}

// Close closes idle connections. The store must not be used any longer.
func (s *Store) Close() { s.transport.CloseIdleConnections() }

// provider passes keys to the client.
type provider struct{ keys func() (Keys, error) }

// Retrieve implements credentials.Provider.
func (p provider) Retrieve() (credentials.Value, error) {
	k, err := p.keys()
	return credentials.Value{
		AccessKeyID: k.ID, SecretAccessKey: string(k.Secret.Bytes()), SessionToken: string(k.Session.Bytes()),
		SignerType: credentials.SignatureV4,
	}, err
}

// RetrieveWithCredContext implements credentials.Provider.
func (p provider) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	return p.Retrieve()
}

// IsExpired implements credentials.Provider: every request asks for the keys again.
func (provider) IsExpired() bool { return true }

// explain adds the error of package objects that the answer of the store means.
func (s *Store) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w: %w", s.where, context.Cause(ctx), err)
	}
	answer, ok := errors.AsType[minio.ErrorResponse](err)
	if !ok {
		return fmt.Errorf("%s: %w", s.where, noEOF(err)) // a connection has ended, and not an object
	}
	status, text := answer.StatusCode, answer.Code+", "+strings.TrimSuffix(answer.Message, ".")
	switch {
	case answer.Code == minio.NoSuchKey && answer.XMLName.Local == "": // the client's own, for any status 404
		return fmt.Errorf("%s: %w", s.where, errNoStore)
	case answer.Code == minio.NoSuchKey:
		return fmt.Errorf("%s: %w: %s", s.where, objects.ErrNotFound, text)
	case status == http.StatusRequestedRangeNotSatisfiable || answer.Code == minio.InvalidRange:
		return io.EOF
	case status == http.StatusInsufficientStorage, strings.Contains(answer.Code, "StorageFull"), strings.Contains(answer.Code, "Quota"):
		return fmt.Errorf("%s: %w: %s", s.where, objects.ErrFull, text)
	case passing(answer):
		return fmt.Errorf("%s: %s, status %d", s.where, text, status)
	}
	return fmt.Errorf("%s: %w: %s; check the names of store and bucket, the keys, their rights, and the clock", s.where,
		objects.ErrRefused, text)
}

// passing reports whether the same request may succeed later.
func passing(answer minio.ErrorResponse) bool {
	switch answer.Code {
	case minio.BadDigest, minio.IncompleteBody, minio.XAmzContentSHA256Mismatch, "RequestTimeout", "OperationAborted":
		return true // the request was damaged or too slow on its way
	}
	switch answer.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusConflict:
		return true
	}
	return answer.StatusCode < 300 || answer.StatusCode >= 500
}

// created is explain for calls that create an object. If the store reports that it does not exist,
// the endpoint is another server.
func (s *Store) created(ctx context.Context, err error) error {
	err = s.explain(ctx, err)
	if errors.Is(err, objects.ErrNotFound) || errors.Is(err, errNoStore) {
		return fmt.Errorf("%w: %s does not know what S3 stores know; check the endpoint", objects.ErrRefused, s.where)
	}
	return err
}

// errNoStore marks an answer of status 404 without an error of S3, such as the page of a proxy
// whose servers have gone. It says nothing about an object, and reads and deletions are repeated.
var errNoStore = errors.New("status 404 without an error of S3: something before the store answered")

// Put implements objects.Store.
//
// Both checksums are in the header of the request, which is signed. The client could also sign each
// 64 KiB on their way, but its reader cannot stand that the transport still reads while the call
// ends: a store that answers early, as one that redirects does, would end the process.
func (s *Store) Put(ctx context.Context, name string, body objects.Body) error {
	if err := objects.CheckPut(name, body); err != nil {
		return err
	}
	md5Sum, sha256Sum := md5.New(), sha256.New()
	n, err := io.Copy(io.MultiWriter(md5Sum, sha256Sum), untilDone{ctx, io.NewSectionReader(body, 0, body.Size())})
	if err == nil && n < body.Size() {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", name, noEOF(err))
	}
	_, err = s.client.PutObject(ctx, s.bucket, s.prefix+name, io.NewSectionReader(body, 0, body.Size()), body.Size(),
		base64.StdEncoding.EncodeToString(md5Sum.Sum(nil)), hex.EncodeToString(sha256Sum.Sum(nil)),
		minio.PutObjectOptions{ContentType: "application/octet-stream", DisableContentSha256: true})
	return s.created(ctx, err)
}

// untilDone is a reader that ends with a context.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (u untilDone) Read(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.r.Read(p)
}

// Get implements objects.Store.
func (s *Store) Get(ctx context.Context, name string, off int64, p []byte) (int, error) {
	if err := objects.CheckListed(name); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, fmt.Errorf("%w: a read from position %d", objects.ErrRefused, off)
	}
	var opts minio.GetObjectOptions
	if err := opts.SetRange(off, off+int64(max(len(p), 1))-1); err != nil {
		return 0, fmt.Errorf("%w: %w", objects.ErrRefused, err)
	}
	body, _, header, err := s.client.GetObject(ctx, s.bucket, s.prefix+name, opts)
	if err != nil {
		return 0, s.explain(ctx, err)
	}
	defer func() { _ = body.Close() }() // it was only read
	total, err := sizeOf(header, off)
	if err != nil {
		return 0, fmt.Errorf("%s: read %s: %w", s.where, name, err)
	}
	want := p[:min(int64(len(p)), max(total-off, 0))]
	n, err := io.ReadFull(body, want)
	if err != nil {
		return n, s.explain(ctx, fmt.Errorf("read %s: %d bytes of %d: %w", name, n, len(want), noEOF(err)))
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// noEOF returns err as one that does not match io.EOF, which is the end of an object.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

var errRange = errors.New("the store did not return the range that was asked for")

// sizeOf returns the size of the object of an answer to a read from off on, and verifies that the
// answer begins there: a store, or a proxy before it, may ignore ranges.
func sizeOf(header http.Header, off int64) (int64, error) {
	text := header.Get("Content-Range")
	if text == "" {
		if off != 0 {
			return 0, errRange
		}
		return strconv.ParseInt(header.Get("Content-Length"), 10, 64)
	}
	var from, to, total int64
	if _, err := fmt.Sscanf(text, "bytes %d-%d/%d", &from, &to, &total); err != nil || from != off || to < from || total <= to {
		return 0, fmt.Errorf("%w: Content-Range %q", errRange, text)
	}
	return total, nil
}

// Copy implements objects.Store.
func (s *Store) Copy(ctx context.Context, from objects.Info, to string) error {
	if err := objects.CheckListed(from.Name); err != nil {
		return err
	}
	if err := objects.CheckName(to); err != nil {
		return err
	}
	_, err := s.client.Client.CopyObject(ctx, minio.CopyDestOptions{Bucket: s.bucket, Object: s.prefix + to},
		minio.CopySrcOptions{Bucket: s.bucket, Object: s.prefix + from.Name})
	return s.explain(ctx, err)
}

// Delete implements objects.Store. In a bucket with versions, the store keeps the old one.
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := objects.CheckListed(name); err != nil {
		return err
	}
	err := s.explain(ctx, s.client.RemoveObject(ctx, s.bucket, s.prefix+name, minio.RemoveObjectOptions{}))
	if errors.Is(err, objects.ErrNotFound) {
		return nil
	}
	return err
}

// List implements objects.Store.
func (s *Store) List(ctx context.Context, prefix string, each func(objects.Info) error) error {
	if err := objects.CheckPrefix(prefix); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx) // the client must see that the loop has ended
	defer cancel()
	for in := range s.client.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}) {
		if in.Err != nil {
			return s.created(ctx, in.Err)
		}
		name, ok := strings.CutPrefix(in.Key, s.prefix)
		if !ok || objects.CheckListed(name) != nil {
			continue // another program's
		}
		if err := each(objects.Info{Name: name, Size: in.Size}); err != nil {
			return err
		}
	}
	return s.explain(ctx, ctx.Err())
}
