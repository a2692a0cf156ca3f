package journal

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// sealHeader makes the checksum of an encoded header right.
func sealHeader(b []byte) {
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[8:headerLen], castagnoli))
}

func crcMatches(frame []byte) bool {
	return binary.LittleEndian.Uint32(frame[4:]) == crc32.Checksum(frame[8:], castagnoli)
}

// frameIn reports whether the file's bytes hold the frame, checksum included.
func frameIn(file []byte, f *Frame) bool {
	for at := dataStart; at+frameHeader <= len(file); at += 8 {
		b := file[at:]
		n := frameHeader + len(f.Payload)
		if len(b) >= n && binary.LittleEndian.Uint64(b[24:]) == uint64(f.LSN) && bytes.Equal(b[frameHeader:n], f.Payload) && crcMatches(b[:n]) {
			return true
		}
	}
	return false
}
