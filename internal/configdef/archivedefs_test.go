package configdef

import "testing"

func TestArchiveURLs(t *testing.T) {
	for text, want := range map[string]ArchiveURL{
		"file:///srv/copies":  {Dir: "/srv/copies"},
		"file:///srv/copies/": {Dir: "/srv/copies"},
		"s3://bucket":         {Bucket: "bucket"},
		"s3://bucket/":        {Bucket: "bucket"},
		"s3://bucket/a/b-1/":  {Bucket: "bucket", Prefix: "a/b-1/"},
	} {
		if got, err := ParseArchiveURL(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "/srv", "file://srv/copies", "file:srv", "file:///", "s3:///x", "s3://u@b/x", "s3://b:1/x", "s3://b/x?y", "s3://b/x#y", "s3://b/X",
		"s3://b/a//b", "s3://b/../c", "https://b/x", "s3://b/%zz",
	} {
		if got, err := ParseArchiveURL(text); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}
