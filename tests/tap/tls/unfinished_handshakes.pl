# Tests that thousands of unfinished TLS handshakes do not affect other clients.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::RawSocket;
use Clairon::Test::SecureSocket;
use POSIX ();
use Test::More;
use Time::HiRes qw(time);

eval { require IO::Socket::SSL; 1 } or plan skip_all => 'IO::Socket::SSL is not installed';
use constant MANY => 1500;    # more than the limit of unfinished handshakes
system('prlimit', '--pid', $$, '--nofile=' . (2 * MANY) . ':') == 0 or die "could not raise the limit of file descriptors";

my $store = Clairon::Test::store();
my ($cert, $key) = Clairon::Test::SecureSocket::certificate();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate', wait => 0,
    conf => { 'gate.tls_cert' => $cert, 'gate.tls_key' => $key, 'gate.connect_timeout' => '10m', 'gate.max_connections' => 3 * MANY });
$relay->wait_for_log(qr/listening/);

sub kilobytes
{
    open my $file, '<', '/proc/' . $relay->pid . '/status' or die "no status: $!";
    my ($rss) = map { /^VmRSS:\s+(\d+)/ } <$file>;
    return $rss;
}
sub descriptors { my @open = glob '/proc/' . $relay->pid . '/fd/*'; return scalar @open }
sub send_raw { my ($bytes) = @_; my $raw = Clairon::Test::RawSocket->new($relay); $raw->write($bytes) if length $bytes; return $raw }
sub https_status { my $raw = Clairon::Test::SecureSocket->new($relay, $cert); return $raw->request(GET => '/healthz')->{status} }

is(https_status(), 200, 'a client that completes its handshake is served');
# The test's own, one of each shard, and the reader's.
wait_until('the connections of the relay to the store are open', sub { (() = $store->execute('CLIENT', 'LIST') =~ /^id=/mg) >= 2 + $store->shards });
my $before = kilobytes();
my $idle   = descriptors();    # may include the connection that is about to be closed

# Records a complete client hello of this machine's OpenSSL with a listening socket.
my $listener = IO::Socket::IP->new(LocalHost => '127.0.0.1', LocalPort => 0, Listen => 1) or die "could not listen: $@\n";
if (!(my $child = fork // die "could not fork: $!\n"))
{
    IO::Socket::SSL->new(PeerHost => '127.0.0.1', PeerPort => $listener->sockport, SSL_verify_mode => 0);
    POSIX::_exit(0);
}
my $hello = '';
my $caller = $listener->accept or die "no connection: $!\n";
sysread $caller, $hello, 16384, length $hello until length $hello >= 5 && length $hello >= 5 + unpack 'x3n', $hello;
close $caller;
wait;

for my $case ([ 'nothing', '' ], [ 'a byte', "\x16" ], [ 'half a hello', substr $hello, 0, length($hello) / 2 ])
{
    my @many = map { send_raw($case->[1]) } 1 .. MANY;
    wait_until('the clients are connected', sub { descriptors() >= $idle + MANY - 1 });
    is(https_status(), 200, MANY . " clients that sent $case->[0] do not block other clients");
    SKIP: {
        skip 'a sanitizer allocates additional memory', 1 if Clairon::Test::is_sanitized();
        cmp_ok(kilobytes() - $before, '<', 3000, 'clients with unfinished handshakes use little memory');
    }
    $_->disconnect for @many;
    wait_until('the connections are closed', sub { descriptors() <= $idle });
}
my @many = map { send_raw($hello) } 1 .. MANY;
is(https_status(), 200, MANY . ' clients that sent only a hello do not block other clients');
1 while $many[0]->more;
pass('the oldest connections are closed when new connections arrive');
# An evicted connection is shut down first, and closed soon afterwards.
wait_until('the number of connections is limited', sub { descriptors() <= $idle + 1025 });
pass('the number of unfinished handshakes is limited');
$_->disconnect for @many;
wait_until('the connections are closed', sub { descriptors() <= $idle });

# The hellos of one address do not delay a client of another address. After three seconds the relay may close a silent
# client for any other, so a slow machine shows nothing.
my $began = time;
@many = map { send_raw($hello) } 1 .. MANY;
my $other = bless { %{ $many[0] }, link => IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $relay->{port}, LocalHost => '127.0.0.2') }, 'Clairon::Test::SecureSocket';
IO::Socket::SSL->start_SSL($other->{link}, SSL_ca_file => $cert, SSL_verifycn_scheme => 'none') or die "no TLS: $IO::Socket::SSL::SSL_ERROR\n";
$other->{bytes} = '';
is($other->request(GET => '/healthz')->{status}, 200, 'a client of another address is served');
my $ended = grep { IO::Select->new($_->{link})->can_read(0) } @many;
SKIP: {
    skip 'the machine is slow', 1 if time - $began >= 3;
    cmp_ok($ended, '<', MANY - 100, 'it is served while hellos of the first address wait');
}
$_->disconnect for @many, $other;
wait_until('the connections are closed', sub { descriptors() <= $idle });
is(send_raw("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")->read_response->{status}, 0, 'a client without TLS is disconnected');
is(https_status(), 200, 'the relay still serves requests');
is($relay->stop, 0, 'SIGTERM ends the relay with status 0');

done_testing();
