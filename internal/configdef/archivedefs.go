package configdef

import (
	"errors"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/objects"
)

// Archive has the settings of the object store and of the snapshots in it.
type Archive struct {
	URL      string // file:///DIR or s3://BUCKET/PREFIX; empty: there is no object store
	Endpoint string // of a bucket; empty: that of Amazon S3 in the region
	Region   string // empty: us-east-1
	KeysFile string // with the keys of a bucket; empty: those of the environment
	CAFile   string // with certificates of authorities that the endpoint's may come from; empty: the system's

	Interval time.Duration // between two snapshots; 0: only those that are asked for
	Keep     int           // how many of the newest stay
	KeepDays int           // of how many days one stays, in addition
	Verify   time.Duration // between two verifications of the newest; 0: none
	Rate     int64         // bytes a second that a broker uploads; 0: no limit
}

func archiveDefs() []*Def {
	return []*Def{
		brokerDef("archive.url", String, "",
			"Where snapshots of the cluster, and records of topics with remote.storage.enable, are stored; the same on all brokers: s3://BUCKET/PREFIX, or file:///DIRECTORY for a directory that all "+
				"brokers share. It must not be on the disks of the log directories.",
			importance(High), noDefault, bounded("s3://BUCKET/PREFIX or file:///DIRECTORY", archiveURL)),
		brokerDef("archive.endpoint", String, "",
			"The URL of the S3-compatible store, such as https://store.example.com:9000. By default it is that of Amazon S3 in archive.region.",
			noDefault, bounded("https://HOST:PORT or http://HOST:PORT", archiveEndpoint)),
		brokerDef("archive.region", String, "", "The region of the bucket; by default us-east-1.", noDefault),
		brokerDef("archive.keys.file", String, "",
			"A file with the keys of the bucket, in the form of ~/.aws/credentials. It is read again when it changes. "+
				"By default the keys are those of AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN.", noDefault),
		brokerDef("archive.ca.file", String, "",
			"A PEM file with the certificates of the authorities that archive.endpoint has its certificate from; by default those of the system.",
			noDefault),
		brokerDef("snapshot.interval.ms", Long, "300000",
			"The number of milliseconds between the beginnings of two snapshots of the cluster. "+
				"0 means that there are only those of chronikctl snapshot create.",
			importance(High), bounded("0 or at least 1000", snapshotInterval)),
		brokerDef("snapshot.keep", Int, "100",
			"How many of the newest snapshots are kept.", between(1, 100_000)),
		brokerDef("snapshot.keep.days", Int, "14",
			"For how many days the newest snapshot of each day is kept, in addition to snapshot.keep. Days are those of UTC.", between(0, 100_000)),
		brokerDef("snapshot.verify.interval.ms", Long, "86400000",
			"The number of milliseconds after which the newest snapshot is read from the store as a whole, "+
				"and compared with its checksums. 0 means never.",
			atLeast(0)),
		brokerDef("snapshot.bytes.per.second", Long, "0",
			"The maximum number of bytes per second that this broker uploads. 0 means no limit.", atLeast(0)),
	}
}

func (f *reader) archive() Archive {
	return Archive{
		URL:      f.value("archive.url").s,
		Endpoint: f.value("archive.endpoint").s,
		Region:   f.value("archive.region").s,
		KeysFile: f.value("archive.keys.file").s,
		CAFile:   f.value("archive.ca.file").s,
		Interval: milliseconds(f.value("snapshot.interval.ms").n),
		Keep:     int(f.value("snapshot.keep").n),
		KeepDays: int(f.value("snapshot.keep.days").n),
		Verify:   milliseconds(f.value("snapshot.verify.interval.ms").n),
		Rate:     f.value("snapshot.bytes.per.second").n,
	}
}

func archiveURL(d *Def, v value) error {
	if _, err := ParseArchiveURL(v.s); err != nil {
		return d.invalid(v.s, err.Error())
	}
	return nil
}

// ArchiveURL is where an object store is.
type ArchiveURL struct {
	Dir    string // absolute, of file:///DIR
	Bucket string // otherwise
	Prefix string // in the bucket; empty, or it ends in a slash
}

// ParseArchiveURL parses a value of archive.url. Errors have the remedy.
func ParseArchiveURL(text string) (at ArchiveURL, err error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.RawQuery != "" || u.Fragment != "" || u.User != nil || u.Opaque != "":
		return at, errors.New("write s3://BUCKET/PREFIX or file:///DIRECTORY, without user, query or fragment")
	case u.Scheme == "file" && u.Host == "" && path.IsAbs(u.Path) && path.Clean(u.Path) != "/":
		return ArchiveURL{Dir: path.Clean(u.Path)}, nil
	case u.Scheme == "file":
		return at, errors.New("write file:///DIRECTORY with an absolute path")
	case u.Scheme != "s3" || u.Host == "" || u.Port() != "":
		return at, errors.New("write file:///DIRECTORY for a directory, or s3://BUCKET/PREFIX for a bucket, whose store is at archive.endpoint")
	}
	at = ArchiveURL{Bucket: u.Host}
	if p := strings.Trim(u.Path, "/"); p != "" {
		at.Prefix = p + "/"
	}
	if err := objects.CheckPrefix(at.Prefix); err != nil {
		return ArchiveURL{}, errors.New("the prefix must consist of lower-case letters, digits, '-', '_', '.' and single slashes")
	}
	return at, nil
}

func archiveEndpoint(d *Def, v value) error {
	u, err := url.Parse(v.s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.User != nil ||
		u.RawQuery != "" {
		return d.invalid(v.s, "write https://HOST:PORT without a path")
	}
	return nil
}

func snapshotInterval(d *Def, v value) error {
	if v.n != 0 && v.n < 1000 {
		return d.invalid(v.s, "write 0, or at least 1000")
	}
	return nil
}
