package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// The image is an OCI image layout in a tar archive
// (https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md): index.json names one
// index, which names a manifest for each processor. Its file system and its configuration are those
// of deploy/docker/Dockerfile.

const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *imagePlatform    `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type imagePlatform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type imageManifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        descriptor        `json:"config"`
	Layers        []descriptor      `json:"layers"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

type imageIndex struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type imageConfig struct {
	Created time.Time `json:"created"`
	imagePlatform
	Config  runConfig `json:"config"`
	RootFS  rootFS    `json:"rootfs"`
	History []history `json:"history"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type history struct {
	Created   time.Time `json:"created"`
	CreatedBy string    `json:"created_by"`
}

// layout collects the files of an image layout.
type layout struct{ files []file }

// add stores a blob and returns its descriptor.
func (l *layout) add(mediaType string, data []byte) descriptor {
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	l.files = append(l.files, file{name: "blobs/sha256/" + digest, data: data})
	return descriptor{MediaType: mediaType, Digest: "sha256:" + digest, Size: len(data)}
}

// addJSON stores a value as a blob.
func (l *layout) addJSON(mediaType string, value any) (descriptor, error) {
	data, err := json.Marshal(value)
	return l.add(mediaType, data), err
}

// image writes chronik-VERSION-image.tar.
func (r *release) image() error {
	platforms := r.linux()
	if len(platforms) == 0 {
		return nil
	}
	text, err := os.ReadFile("deploy/docker/Dockerfile")
	if err != nil {
		return err
	}
	config, err := parseDockerfile(string(text), map[string]string{"VERSION": r.version})
	if err != nil {
		return fmt.Errorf("deploy/docker/Dockerfile: %w", err)
	}
	var l layout
	index := imageIndex{SchemaVersion: 2, MediaType: typeIndex}
	for _, p := range platforms {
		manifest, err := r.manifest(&l, p, config)
		if err != nil {
			return err
		}
		index.Manifests = append(index.Manifests, manifest)
	}
	all, err := l.addJSON(typeIndex, index)
	if err != nil {
		return err
	}
	all.Annotations = map[string]string{"org.opencontainers.image.ref.name": r.version}
	top, err := json.Marshal(imageIndex{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{all}})
	if err != nil {
		return err
	}
	l.files = append(l.files, file{name: "index.json", data: top}, file{name: "oci-layout", data: []byte(`{"imageLayoutVersion":"1.0.0"}`)})
	content, err := tarOf(l.files, r.time)
	if err != nil {
		return err
	}
	return put(r.name("chronik-%s-image.tar", r.version), content)
}

// manifest adds the image of one processor.
func (r *release) manifest(l *layout, p platform, run runConfig) (descriptor, error) {
	files, err := r.rootFiles(p)
	if err != nil {
		return descriptor{}, err
	}
	content, err := tarOf(files, r.time)
	if err != nil {
		return descriptor{}, err
	}
	plain := sha256.Sum256(content)
	layer := l.add(typeLayer, compressed(content))
	labels := map[string]string{
		"org.opencontainers.image.revision": r.commit,
		"org.opencontainers.image.created":  r.time.Format(time.RFC3339),
	}
	for name, value := range run.Labels {
		labels[name] = value
	}
	run.Labels = labels
	at := imagePlatform{Architecture: p.arch, OS: p.os}
	config, err := l.addJSON(typeConfig, imageConfig{
		Created: r.time, imagePlatform: at, Config: run,
		RootFS:  rootFS{Type: "layers", DiffIDs: []string{"sha256:" + hex.EncodeToString(plain[:])}},
		History: []history{{r.time, "make release VERSION=" + r.version}},
	})
	if err != nil {
		return descriptor{}, err
	}
	manifest, err := l.addJSON(typeManifest, imageManifest{
		SchemaVersion: 2, MediaType: typeManifest, Config: config, Layers: []descriptor{layer}, Annotations: labels,
	})
	manifest.Platform = &at
	return manifest, err
}

// rootFiles returns the file system of the image: what the Dockerfile copies, and the licenses.
func (r *release) rootFiles(p platform) ([]file, error) {
	files, err := r.program(p, "usr/bin/", []string{"chronikd", "chronikctl"})
	if err != nil {
		return nil, err
	}
	for from, to := range map[string]string{
		"deploy/docker/passwd": "etc/passwd", "deploy/docker/group": "etc/group", "LICENSE": "usr/share/doc/chronik/LICENSE",
		filepath.Join(stage, "doc", "third-party.gz"): "usr/share/doc/chronik/third-party.gz",
	} {
		data, err := os.ReadFile(from)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: to, data: bytes.Clone(data)})
	}
	return append(files, file{name: "var/lib/chronik/", user: 65532}), nil
}
