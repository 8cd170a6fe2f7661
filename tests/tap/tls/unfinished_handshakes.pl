# Do thousands who begin TLS and do not go on cost anybody but themselves?
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::RawSocket;
use Clairon::Test::SecureSocket;
use POSIX ();
use Test::More;

eval { require IO::Socket::SSL; 1 } or plan skip_all => 'IO::Socket::SSL is not installed';
use constant MANY => 1500;    # more than may be amid their handshake
system('prlimit', '--pid', $$, '--nofile=' . (2 * MANY) . ':') == 0 or die "could not raise the limit of descriptors\n";

my $store = Clairon::Test::store();
my ($cert, $key) = Clairon::Test::SecureSocket::certificate();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate', wait => 0,
    conf => { 'gate.tls_cert' => $cert, 'gate.tls_key' => $key, 'gate.connect_timeout' => '10m', 'gate.max_connections' => 3 * MANY });
$relay->wait_for_log(qr/store.*connected/);

sub kilobytes
{
    open my $file, '<', '/proc/' . $relay->pid . '/status' or die "no status: $!";
    my ($rss) = map { /^VmRSS:\s+(\d+)/ } <$file>;
    return $rss;
}
sub descriptors { my @open = glob '/proc/' . $relay->pid . '/fd/*'; return scalar @open }
sub said { my ($bytes) = @_; my $raw = Clairon::Test::RawSocket->new($relay); $raw->write($bytes) if length $bytes; return $raw }
sub answers { my $raw = Clairon::Test::SecureSocket->new($relay, $cert); return $raw->request(GET => '/healthz')->{status} }

is(answers(), 200, 'who goes on is answered');
my $before = kilobytes();
my $idle   = descriptors();    # maybe with the one that was answered, which is about to go

# A whole hello, as this machine's OpenSSL says it: to a socket that only listens.
my $listener = IO::Socket::IP->new(LocalHost => '127.0.0.1', LocalPort => 0, Listen => 1) or die "could not listen: $@\n";
if (!(my $child = fork // die "no fork: $!\n"))
{
    IO::Socket::SSL->new(PeerHost => '127.0.0.1', PeerPort => $listener->sockport, SSL_verify_mode => 0);
    POSIX::_exit(0);
}
my $hello = '';
my $caller = $listener->accept or die "nobody came: $!\n";
sysread $caller, $hello, 16384, length $hello until length $hello >= 5 && length $hello >= 5 + unpack 'x3n', $hello;
close $caller;
wait;

for my $case ([ 'nothing', '' ], [ 'a byte', "\x16" ], [ 'half a hello', substr $hello, 0, length($hello) / 2 ])
{
    my @many = map { said($case->[1]) } 1 .. MANY;
    wait_until('they are there', sub { descriptors() >= $idle + MANY - 1 });
    is(answers(), 200, MANY . " who say $case->[0] are in nobody's way");
    SKIP: {
        skip 'a sanitizer has memory of its own', 1 if Clairon::Test::is_sanitized();
        cmp_ok(kilobytes() - $before, '<', 3000, 'and cost next to no memory');
    }
    $_->disconnect for @many;
    wait_until('they are gone', sub { descriptors() <= $idle });
}
my @many = map { said($hello) } 1 .. MANY;
is(answers(), 200, MANY . ' who say hello, and no more, are in nobody\'s way');
1 while $many[0]->more;
pass('the first of them made room');
cmp_ok(descriptors(), '<=', $idle + 1025, 'for there is a ceiling');
$_->disconnect for @many;
wait_until('they are gone', sub { descriptors() <= $idle });
is(said("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")->read_response->{status}, 0, 'who does not speak TLS is let go');
is(answers(), 200, 'and the relay goes on');
is($relay->stop, 0, 'SIGTERM ends the relay in good order');

done_testing();
