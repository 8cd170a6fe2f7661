// server.js: servers for test_http_client.c on free ports of loopback. Prints their names and ports, one a line, then
// "end". The path selects the behaviour. Ends with its standard input.
'use strict'

const { execFileSync } = require('node:child_process')
const fs = require('node:fs')
const http = require('node:http')
const http2 = require('node:http2')
const https = require('node:https')
const net = require('node:net')
const os = require('node:os')
const path = require('node:path')

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'clairon-http-'))
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }))

const count = { requests: 0, connections: 0, open: 0, most: 0, followed: 0, cut: 0, whole: 0, proxied: 0, tunnels: 0 }

// ---- certificates

const file = (name) => path.join(folder, name)
const openssl = (...words) => execFileSync('openssl', words, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] })

function authority (name) {
  openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2',
    '-subj', `/CN=${name}`, '-keyout', `${name}.key`, '-out', `${name}.pem`)
}

// Only "openssl ca" accepts an end in the past.
function certificate (name, names, by, dates = []) {
  fs.writeFileSync(file('index'), '')
  fs.writeFileSync(file('ca.cnf'), `[ca]\ndefault_ca = d\n[d]\nnew_certs_dir = .\ndatabase = index\nrand_serial = yes
default_md = sha256\ndefault_days = 2\nunique_subject = no\npolicy = p\nx509_extensions = e\n[p]\ncommonName = supplied
[e]\nsubjectAltName = ${names}\n`)
  openssl('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', `/CN=${name}`,
    '-keyout', `${name}.key`, '-out', `${name}.csr`)
  openssl('ca', '-batch', '-config', 'ca.cnf', '-notext', '-cert', `${by}.pem`, '-keyfile', `${by}.key`,
    '-in', `${name}.csr`, '-out', `${name}.pem`, ...dates)
  return { key: fs.readFileSync(file(`${name}.key`)), cert: fs.readFileSync(file(`${name}.pem`)) }
}

// ---- behaviours

const behaviours = {
  ok (request, response) {
    response.setHeader('Retry-After', '7')
    response.end('ok')
  },
  echo (request, response) {
    let body = ''
    request.on('data', (part) => { body += part })
    request.on('end', () => response.end(`${request.method} ${request.httpVersion} ${JSON.stringify(request.headers)} ${body}`))
  },
  status (request, response) {
    response.statusCode = Number(request.url.split('/')[2])
    response.end('status')
  },
  hang () {},
  reset (request) { request.socket.destroy() },
  die (request, response) {
    response.writeHead(200, { 'Content-Length': '1000' })
    response.write('part', () => request.socket.destroy())
  },
  slow (request, response) {
    const timer = setInterval(() => response.write('.'), 5)
    request.socket.on('close', () => clearInterval(timer))
  },
  late (request, response) { setTimeout(() => response.end('late'), 20) },
  redirect (request, response) {
    response.writeHead(302, { Location: '/followed' })
    response.end()
  },
  followed (request, response) {
    count.followed++
    response.end()
  },
  big (request, response) { // more than the buffers of a socket hold
    const part = Buffer.alloc(64 * 1024, 'x')
    let left = 512
    const more = () => {
      for (let isAccepted = true; left > 0 && isAccepted; left--) isAccepted = response.write(part)
      if (left === 0) response.end()
    }
    response.on('drain', more)
    response.on('close', () => { count[left > 0 ? 'cut' : 'whole']++ })
    more()
  },
  endless_head (request) {
    const socket = request.socket
    const line = `X-Filler: ${'x'.repeat(8000)}\r\n`
    const more = () => { while (!socket.destroyed && socket.write(line)); }
    socket.write('HTTP/1.1 200 OK\r\n')
    socket.on('drain', more)
    more()
  },
  count (request, response) { response.end(JSON.stringify(count)) }
}

function handle (request, response) {
  const name = request.url.split('/')[1]
  if (name !== 'count') count.requests++
  behaviours[name](request, response)
}

function counted (server) {
  server.on(server instanceof https.Server ? 'secureConnection' : 'connection', (socket) => {
    count.connections++
    count.most = Math.max(count.most, ++count.open)
    socket.on('close', () => count.open--)
    socket.on('error', () => {})
  })
  server.on('tlsClientError', () => {})
  server.on('sessionError', () => {})
  return server
}

// A proxy that resolves each name to loopback.
function proxy () {
  const server = http.createServer((request, response) => {
    const url = new URL(request.url)
    count.proxied++
    request.pipe(http.request({ host: '127.0.0.1', port: url.port, path: url.pathname, method: request.method, headers: request.headers },
      (from) => {
        response.writeHead(from.statusCode, from.headers)
        from.pipe(response)
      }))
  })
  server.on('connect', (request, socket) => {
    const to = net.connect(Number(request.url.split(':').pop()), '127.0.0.1', () => {
      count.tunnels++
      socket.write('HTTP/1.1 200 Connection established\r\nX-Of-Proxy: yes\r\n\r\n')
      to.pipe(socket)
      socket.pipe(to)
    })
    to.on('error', () => socket.destroy())
    socket.on('error', () => to.destroy())
  })
  return server
}

authority('authority')
authority('other')
const past = ['-startdate', '20200101000000Z', '-enddate', '20200201000000Z']
const own = 'DNS:good.test,IP:127.0.0.1'
const servers = {
  http: counted(http.createServer(handle)),
  https: counted(https.createServer(certificate('good', own, 'authority'), handle)),
  http2: counted(http2.createSecureServer(certificate('two', own, 'authority'), handle)),
  expired: counted(https.createServer(certificate('expired', own, 'authority', past), handle)),
  mismatch: counted(https.createServer(certificate('mismatch', 'DNS:other.test', 'authority'), handle)),
  unknown: counted(https.createServer(certificate('unknown', own, 'other'), handle)),
  silent: net.createServer(() => {}),
  proxy: proxy()
}

async function start () {
  for (const [name, server] of Object.entries(servers)) {
    await new Promise((resolve) => server.listen(0, '127.0.0.1', 1024, resolve))
    console.log(`${name} ${server.address().port}`)
  }
  console.log(`folder ${folder}`)
  console.log('end')
}

process.stdin.on('end', () => process.exit(0)).resume()
start()
