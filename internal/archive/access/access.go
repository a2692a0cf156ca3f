// Package access opens the object store that the settings of a broker name.
//
// It owns the form of the file with keys, and the bounds of calls to a store. Every call to a store
// has a deadline, whatever its context, and an error of Open says what to do. It does not know what
// is in the store.
package access

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/objects/dirstore"
	"github.com/chronik-io/chronik/internal/objects/s3store"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/security/certs"
	"github.com/chronik-io/chronik/internal/security/files"
	"github.com/chronik-io/chronik/internal/security/secret"
	"github.com/chronik-io/chronik/internal/vfs"
)

// bounds are those of every call to a store. A store that transfers less than 256 KiB a second, or
// does not answer for half a minute, counts as hanging.
func bounds() objects.Attempts {
	return objects.Attempts{Attempt: 30 * time.Second, Rate: 256 << 10, Total: 2 * time.Minute,
		Pause: pause.Backoff{First: 200 * time.Millisecond, Most: 10 * time.Second}}
}

// Open returns the object store of settings whose URL is not empty. Its calls are repeated within
// bounds. It does not wait for a bucket; of a directory, it checks that it exists. Errors have the
// remedy.
func Open(fsys vfs.FS, c *configdef.Archive) (objects.Store, error) {
	at, err := configdef.ParseArchiveURL(c.URL)
	if err != nil {
		return nil, fmt.Errorf("archive.url %s: %w", c.URL, err)
	}
	var store objects.Store
	if at.Dir != "" {
		store, err = dirstore.Open(fsys, at.Dir)
	} else {
		store, err = bucket(&at, c)
	}
	if err != nil {
		return nil, err
	}
	return objects.Repeat(store, bounds()), nil
}

// Opener opens the store of one broker as often as it is used: a directory may not be mounted any
// longer, whereas a bucket keeps its connections.
type Opener struct {
	fs   vfs.FS
	conf *configdef.Archive

	mu     sync.Mutex
	bucket objects.Store // nil until it is opened, and for a directory
}

var errNoURL = errors.New("archive.url is not set on this broker; set it on all brokers")

// NewOpener returns an Opener.
func NewOpener(fsys vfs.FS, c *configdef.Archive) *Opener { return &Opener{fs: fsys, conf: c} }

// Open is the function Open. Without a URL it fails.
func (o *Opener) Open() (objects.Store, error) {
	if o.conf.URL == "" {
		return nil, errNoURL
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bucket != nil {
		return o.bucket, nil
	}
	store, err := Open(o.fs, o.conf)
	if at, _ := configdef.ParseArchiveURL(o.conf.URL); err == nil && at.Bucket != "" {
		o.bucket = store
	}
	return store, err
}

// bucket returns the store in a bucket.
func bucket(at *configdef.ArchiveURL, c *configdef.Archive) (objects.Store, error) {
	o := s3store.Options{Endpoint: c.Endpoint, Bucket: at.Bucket, Prefix: at.Prefix, Region: c.Region, Keys: (&keys{file: c.KeysFile}).read}
	if o.Endpoint == "" {
		region := c.Region
		if region == "" {
			region = "us-east-1"
		}
		o.Endpoint = "https://s3." + region + ".amazonaws.com"
	}
	if c.CAFile != "" {
		pem, _, err := files.Read(c.CAFile)
		pool := x509.NewCertPool()
		if err == nil && !pool.AppendCertsFromPEM(pem) {
			err = errors.New("it has no certificate in PEM form")
		}
		if err != nil {
			return nil, fmt.Errorf("archive.ca.file %s: %w", c.CAFile, err)
		}
		o.TLS = certs.Base()
		o.TLS.RootCAs = pool
	}
	return s3store.Open(o)
}

// recheck is how long keys are used before their file is examined again.
const recheck = time.Second

// keys reads the keys of a bucket when their file has changed.
type keys struct {
	file string

	mu      sync.Mutex
	checked time.Time
	stamp   files.Stamp
	have    s3store.Keys
	err     error
}

// read is s3store.Options.Keys.
func (k *keys) read() (s3store.Keys, error) {
	if k.file == "" {
		return environment()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := time.Now(); k.checked.IsZero() || now.Sub(k.checked) >= recheck {
		k.checked = now
		if at := files.StampOf(files.Locate(k.file)); at != k.stamp || k.err != nil || k.have.ID == "" {
			k.have, k.err = s3store.Keys{}, nil
			var text []byte
			if text, k.stamp, k.err = files.ReadSecret(k.file); k.err == nil {
				k.have, k.err = parse(text)
			}
		}
	}
	if k.err != nil {
		return s3store.Keys{}, fmt.Errorf("archive.keys.file %s: %w", k.file, k.err)
	}
	return k.have, nil
}

// environment returns the keys of the variables that Amazon's tools read.
func environment() (s3store.Keys, error) {
	k := s3store.Keys{ID: os.Getenv("AWS_ACCESS_KEY_ID"), Secret: secret.Of(os.Getenv("AWS_SECRET_ACCESS_KEY")),
		Session: secret.Of(os.Getenv("AWS_SESSION_TOKEN"))}
	if k.ID == "" || k.Secret.Len() == 0 {
		return s3store.Keys{}, errors.New("there are no keys for the bucket; set archive.keys.file, " +
			"or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment of chronikd")
	}
	return k, nil
}

// parse reads the keys in the form of ~/.aws/credentials: those of the section [default], or of a
// file without sections.
func parse(text []byte) (k s3store.Keys, err error) {
	used := true
	for raw := range bytes.Lines(text) {
		line := string(bytes.TrimSpace(raw))
		if strings.HasPrefix(line, "[") {
			used = line == "[default]"
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !used || line == "" || line[0] == '#' || line[0] == ';' || !ok {
			continue
		}
		switch value = strings.TrimSpace(value); strings.TrimSpace(name) {
		case "aws_access_key_id":
			k.ID = value
		case "aws_secret_access_key":
			k.Secret = secret.Of(value)
		case "aws_session_token":
			k.Session = secret.Of(value)
		}
	}
	if k.ID == "" || k.Secret.Len() == 0 {
		return s3store.Keys{}, errors.New("it needs lines aws_access_key_id = ID and aws_secret_access_key = KEY, before any section or in [default]")
	}
	return k, nil
}
