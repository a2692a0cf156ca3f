package storage

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A file name has at most 255 bytes, and the name of a topic up to 249. The partition directory,
// <topic>-<n>, is therefore the only name with a topic's name in it. All others are made of the
// topic's id. A partition directory ends in a number, so none has one of these suffixes.
const (
	deleteSuffix   = "-delete"
	straySuffix    = "-stray"
	replacedSuffix = "-replaced" // of a log that was replaced
	futureSuffix   = "-future"   // of the copy of a log that moves to this directory

	// FramesSuffix ends the name of a quarantine file.
	FramesSuffix  = ".frames"
	unknownPrefix = "unknown-"
	damagedFrames = "recovery" // in the directory of a damaged log
)

// stem begins every name that is made of a log's id.
func stem(id ID) string { return fmt.Sprintf("%x-%d", id.Topic, id.Partition) }

// deletedPath returns the path that a log's directory gets before its files are removed.
func (d *Dir) deletedPath(l *checkpoint.Log) string {
	name := stem(l.ID)
	if d.opt.broken.has(topicNames) {
		name = l.String()
	}
	return path.Join(d.path, name+deleteSuffix)
}

// IsDeletedName reports whether name is that of a deleted partition's directory, which recovery
// removes.
func IsDeletedName(name string) bool { return strings.HasSuffix(name, deleteSuffix) }

// FutureName returns the name of the directory of a log's copy.
func FutureName(id ID) string { return stem(id) + futureSuffix }

// futureID returns the log to whose copy a directory belongs.
func futureID(name string) (id ID, ok bool) {
	var topic []byte
	if _, err := fmt.Sscanf(name, "%32x-%d", &topic, &id.Partition); err != nil || len(topic) != len(id.Topic) {
		return ID{}, false
	}
	copy(id.Topic[:], topic)
	return id, FutureName(id) == name
}

// IsFutureName reports whether name is that of the copy of a log that moves to the directory.
func IsFutureName(name string) bool {
	_, is := futureID(name)
	return is
}

// strayName returns a new name for a partition directory that the checkpoint does not list. It
// begins with the topic id that the directory holds, zeros if it holds none.
func strayName(fsys vfs.FS, dir string) string {
	n := dir[strings.LastIndexByte(dir, '-')+1:]
	return fmt.Sprintf("%x-%s-%x"+straySuffix, TopicIn(fsys, dir), n, newID())
}

// IsStrayName reports whether name is that of a quarantined partition directory, which recovery
// does not change.
func IsStrayName(name string) bool { return strings.HasSuffix(name, straySuffix) }

// framesName returns the name of a quarantine file.
func framesName(of string, seq uint64) string { return fmt.Sprintf("%s-%d", of, seq) + FramesSuffix }

// framesOf returns the log to which a quarantine file in the log directory belongs. It returns
// false for the file of a log that was unknown, and for any other name.
func framesOf(name string) (id ID, ok bool) {
	var topic []byte
	var seq uint64
	_, err := fmt.Sscanf(name, "%32x-%d-%d", &topic, &id.Partition, &seq)
	if err != nil || len(topic) != len(id.Topic) {
		return ID{}, false
	}
	copy(id.Topic[:], topic)
	return id, framesName(stem(id), seq) == name
}

// partitionText is the content of PartitionFile, which Kafka also reads.
const partitionText = "version: 0\ntopic_id: %s\n"

func partitionMetaOf(id ID) []byte {
	return fmt.Appendf(nil, partitionText, base64.RawURLEncoding.EncodeToString(id.Topic[:]))
}

// HoldsPartition reports whether a directory in a log directory has the file of a partition. An
// error means that this is unknown. A directory whose name is not that of a partition, such as
// lost+found, may refuse the answer.
func HoldsPartition(fsys vfs.FS, dir string) (bool, error) {
	_, err := fsys.Stat(path.Join(dir, PartitionFile))
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), !strings.Contains(path.Base(dir), "-"):
		return false, nil
	}
	return false, err
}

// TopicIn returns the topic id in a partition directory, zeros if it cannot be read.
func TopicIn(fsys vfs.FS, dir string) (topic [16]byte) {
	b, _ := vfs.ReadFile(fsys, path.Join(dir, PartitionFile))
	var text string
	if _, err := fmt.Sscanf(string(b), partitionText, &text); err != nil {
		return topic
	}
	if id, err := base64.RawURLEncoding.DecodeString(text); err == nil && len(id) == len(topic) {
		copy(topic[:], id)
	}
	return topic
}

// Belongs reports whether a partition directory belongs to the log with id, and not to a later log
// with the same name. A directory without PartitionFile, or none at all, belongs to no log. Belongs
// reads the disk. The error means that it is not known to which log the directory belongs: if
// that counted as a no, the files of a log would be left to another, or the only copy removed.
func Belongs(fsys vfs.FS, dir string, id ID) (bool, error) {
	b, err := vfs.ReadFile(fsys, path.Join(dir, PartitionFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && bytes.Equal(b, partitionMetaOf(id)), err
}

// present reports whether a file or a directory exists. An error does not say that it does not.
func present(fsys vfs.FS, name string) (bool, error) {
	_, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
