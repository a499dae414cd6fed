// What Go programs do beside plain echoes: many connections at once, deadlines, children, sockets of
// other kinds. See src/programs/go.rs.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func expect(is bool, format string, words ...any) {
	if !is {
		check(fmt.Errorf(format, words...))
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	check(err)
	return value
}

// Runs all at once, and ends when all have ended.
func together(count int, one func(n int) error) {
	ends := make(chan error, count)
	for n := 0; n < count; n++ {
		go func(n int) { ends <- one(n) }(n)
	}
	for n := 0; n < count; n++ {
		check(<-ends)
	}
}

func echo(listener net.Listener) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer connection.Close()
			io.Copy(connection, connection)
		}()
	}
}

// One exchange on an open connection.
func exchange(connection net.Conn, text string) error {
	if _, err := io.WriteString(connection, text); err != nil {
		return err
	}
	answer := make([]byte, len(text))
	if _, err := io.ReadFull(connection, answer); err != nil {
		return err
	}
	if string(answer) != text {
		return fmt.Errorf("%q came back of %q", answer, text)
	}
	return nil
}

// Connections that are all open before the first speaks.
func holdOpen(address string, count, rounds int) {
	all := make([]net.Conn, count)
	together(count, func(n int) (err error) {
		all[n], err = net.DialTimeout("tcp", address, 60*time.Second)
		return err
	})
	together(count, func(n int) error {
		defer all[n].Close()
		for round := 0; round < rounds; round++ {
			all[n].SetDeadline(time.Now().Add(60 * time.Second))
			// Something for the collector to move.
			text := strings.Repeat(fmt.Sprint(n, " ", round, " "), 1+round%50)
			if err := exchange(all[n], text); err != nil {
				return fmt.Errorf("connection %d, round %d: %w", n, round, err)
			}
		}
		return nil
	})
	fmt.Println("ok")
}

// Answers when as many requests are there as the first says.
func httpServe(address string) {
	listener, err := net.Listen("tcp", address)
	check(err)
	var lock sync.Mutex
	waiting, all := 0, make(chan struct{})
	answer := func(to http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		count := number(request.URL.Query().Get("together"))
		lock.Lock()
		wait := all
		if waiting++; waiting == count {
			close(all)
			waiting, all = 0, make(chan struct{})
		}
		lock.Unlock()
		select {
		case <-wait:
			to.Write(body)
		case <-time.After(90 * time.Second):
			to.WriteHeader(http.StatusGatewayTimeout)
		}
	}
	server := &http.Server{Handler: http.HandlerFunc(answer), ReadTimeout: time.Minute}
	fmt.Println("listening")
	check(server.Serve(listener))
}

func httpCall(address string, count, rounds int) {
	dialer := &net.Dialer{Timeout: 60 * time.Second}
	transport := &http.Transport{MaxIdleConnsPerHost: count, DialContext: dialer.DialContext}
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	url := fmt.Sprintf("http://%s/?together=%d", address, count)
	for round := 0; round < rounds; round++ {
		together(count, func(n int) error {
			sent := bytes.Repeat([]byte{byte(n), byte(round)}, 10+n*round)
			answer, err := client.Post(url, "text/plain", bytes.NewReader(sent))
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			received, err := io.ReadAll(answer.Body)
			if err == nil && (answer.StatusCode != 200 || !bytes.Equal(received, sent)) {
				err = fmt.Errorf("%s with %d bytes", answer.Status, len(received))
			}
			return err
		})
	}
	fmt.Println("ok")
}

// A read that ends at its deadline, and goes on with a new one; a dial that is refused.
func deadlines(address, closed string) {
	connection, err := net.Dial("tcp", address)
	check(err)
	one := make([]byte, 1)
	connection.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	_, err = connection.Read(one)
	expect(errors.Is(err, os.ErrDeadlineExceeded), "instead of the deadline's end: %v", err)
	connection.SetReadDeadline(time.Time{})
	check(exchange(connection, "afterwards"))
	// Another goroutine closes it under a reader.
	ended := make(chan error)
	go func() { _, err := connection.Read(one); ended <- err }()
	time.Sleep(50 * time.Millisecond)
	check(connection.Close())
	err = <-ended
	expect(errors.Is(err, net.ErrClosed), "instead of a closed connection: %v", err)
	_, err = net.DialTimeout("tcp", closed, 60*time.Second)
	expect(err != nil, "somebody listens at %s", closed)
	fmt.Println("ok")
}

// Kernel sockets and files beside ours.
func others() {
	folder, err := os.MkdirTemp("", "gannet-go")
	check(err)
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "socket")
	unix, err := net.Listen("unix", path)
	check(err)
	go echo(unix)
	connection, err := net.Dial("unix", path)
	check(err)
	check(exchange(connection, "over a Unix socket"))
	file := filepath.Join(folder, "file")
	check(os.WriteFile(file, []byte("in a file"), 0o600))
	text, err := os.ReadFile(file)
	check(err)
	expect(string(text) == "in a file", "the file says %q", text)
	read, write, err := os.Pipe()
	check(err)
	go func() { io.WriteString(write, "through a pipe"); write.Close() }()
	text, err = io.ReadAll(read)
	check(err)
	expect(string(text) == "through a pipe", "the pipe says %q", text)
}

// An echo server that starts other programs all the time, and one that has a listener of its own
// from it and an empty environment.
func execServe(address, handed string) {
	others()
	listener, err := net.Listen("tcp", address)
	check(err)
	go echo(listener)
	inherited, err := net.Listen("tcp", handed)
	check(err)
	file, err := inherited.(*net.TCPListener).File()
	check(err)
	child := exec.Command("/proc/self/exe", "inherited")
	child.Env = []string{}
	child.ExtraFiles = []*os.File{nil, os.Stderr, file}
	child.Stderr = os.Stderr
	// Held open until this program ends, and then the child is to end too.
	held, err := child.StdinPipe()
	check(err)
	defer held.Close()
	said, err := child.StdoutPipe()
	check(err)
	check(child.Start())
	check(inherited.Close())
	check(file.Close())
	ready := make([]byte, 6)
	_, err = io.ReadFull(said, ready)
	check(err)
	_, err = exec.Command("/nowhere/to/be/found").Output()
	expect(err != nil, "a program that does not exist was started")
	fmt.Println("listening")
	for {
		together(4, func(n int) error {
			said, err := exec.Command("/bin/sh", "-c", fmt.Sprint("echo child ", n)).Output()
			if err == nil && strings.TrimSpace(string(said)) != fmt.Sprint("child ", n) {
				err = fmt.Errorf("a child said %q", said)
			}
			return err
		})
	}
}

func inherited() {
	listener, err := net.FileListener(os.NewFile(5, "listener"))
	check(err)
	fmt.Println("ready.")
	go echo(listener)
	io.ReadAll(os.Stdin)
}

func datagramServe(address string) {
	socket, err := net.ListenPacket("udp", address)
	check(err)
	fmt.Println("listening")
	bytes := make([]byte, 2000)
	for {
		n, from, err := socket.ReadFrom(bytes)
		check(err)
		_, err = socket.WriteTo(bytes[:n], from)
		check(err)
	}
}

func datagramCall(address string, count int) {
	together(8, func(n int) error {
		socket, err := net.Dial("udp", address)
		if err != nil {
			return err
		}
		defer socket.Close()
		for i := 0; i < count; i++ {
			socket.SetDeadline(time.Now().Add(60 * time.Second))
			text := fmt.Sprint("datagram ", n, " ", i)
			answer := make([]byte, 100)
			if _, err := io.WriteString(socket, text); err != nil {
				return err
			}
			got, err := socket.Read(answer)
			if err != nil {
				return err
			}
			if string(answer[:got]) != text {
				return fmt.Errorf("%q came back of %q", answer[:got], text)
			}
		}
		return nil
	})
	fmt.Println("ok")
}

func main() {
	words := os.Args[1:]
	switch words[0] {
	case "serve":
		listener, err := net.Listen("tcp", words[1])
		check(err)
		fmt.Println("listening")
		echo(listener)
	case "hold":
		holdOpen(words[1], number(words[2]), number(words[3]))
	case "http-serve":
		httpServe(words[1])
	case "http-call":
		httpCall(words[1], number(words[2]), number(words[3]))
	case "deadlines":
		deadlines(words[1], words[2])
	case "exec-serve":
		execServe(words[1], words[2])
	case "inherited":
		inherited()
	case "datagram-serve":
		datagramServe(words[1])
	case "datagram-call":
		datagramCall(words[1], number(words[2]))
	}
}
