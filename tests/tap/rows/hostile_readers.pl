# Tests clients that guess many rules, request more rows than they read, or disconnect in the middle of a page: the rows
# are released, other clients are served, and the memory and the connections of the relay are limited.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::RawSocket;
use Clairon::Test::StubRows;
use Socket qw(SOL_SOCKET SO_LINGER SO_RCVBUF);
use Test::More;

use constant { ROUNDS => 24, GUESSES => 400, CONNECTIONS => 2 };

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner')});
my $stub = Clairon::Test::StubRows->new($pg);
my $relay = Clairon::Test::relay($pg, Clairon::Test::store(),
    conf => { 'rows.connections' => CONNECTIONS, 'rows.max_bytes' => '16MB', 'rows.timeout' => '60s', 'gate.ping' => '10m' });
$stub->set('large', audience => 'ALL', row_count => 1500, width => 5000);
$stub->set('small');
my $client = $relay->client('u1');
my $next   = 100;

sub memory
{
    open my $file, '<', "/proc/$relay->{pid}/status" or die "could not read the status of the relay: $!\n";
    my ($rss) = map { /^VmRSS:\s+(\d+)/ } <$file>;
    return $rss;
}

# A sanitizer keeps freed memory for a while.
my $before;
sub is_bounded { my ($most, $what) = @_; return cmp_ok(Clairon::Test::is_sanitized() ? 0 : memory() - $before, '<', $most, $what) }

sub queries
{
    return $pg->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%live_rows%' AND pid <> pg_backend_pid()});
}

# Returns the type and the code of the reply to another client.
sub reply_to
{
    my ($source, %fields) = @_;
    my $r = ++$next;
    $client->send({ t => 'rows', r => $r, source => $source, %fields });
    my $reply = $client->wait_for(sub { ($_[0]{r} // 0) == $r });
    return join ' ', $reply->{t}, $reply->{code} // ();
}

# One client guesses names, which the relay does not store.
is(reply_to('small'), 'rows', 'a client receives its rows');
reply_to("warm$_") for 1 .. 20;
$before = memory();
my %codes;
$codes{ reply_to("guess$_", rule => 'x' x ($_ % 60 + 1)) }++ for 1 .. GUESSES;
is_deeply(\%codes, { 'err 103' => GUESSES }, 'each guessed rule is rejected with error 103');
$codes{ reply_to('small', rule => "r$_") }++ for 1 .. GUESSES;
is_deeply(\%codes, { 'err 103' => 2 * GUESSES }, 'each guessed rule of an existing source is rejected with error 103');
is_bounded(4096, 'guessed names occupy no memory afterwards');
is(reply_to('small'), 'rows', 'the same client still receives its rows');

# Other clients disconnect while they wait or within a page.
my $row = 0;
for my $round (1 .. ROUNDS)
{
    my @raw = map { Clairon::Test::RawSocket->user($relay, "h$round.$_") } 1 .. 3;
    for my $raw (@raw)
    {
        setsockopt $raw->{link}, SOL_SOCKET, SO_RCVBUF, 16384 or die "setsockopt: $!\n";
        $raw->send_json(map { { t => 'rows', r => $_, source => $_ % 4 ? 'large' : "guess$round.$_" } } 2 .. 12);
    }
    1 until $raw[1]->next_message->{t} eq 'rows';
    for my $raw (@raw)
    {
        setsockopt $raw->{link}, SOL_SOCKET, SO_LINGER, pack('ll', 1, 0) or die "setsockopt: $!\n" if $round % 2;
        close $raw->{link};
    }
    next if $round % 6;
    $pg->safe_psql('postgres', 'INSERT INTO t VALUES (' . ++$row . q{, 'u1')});
    $client->wait_row($row);
    is(reply_to('small'), 'rows', "round $round: another client receives its notification and its rows");
    cmp_ok(queries(), '<=', CONNECTIONS, "round $round: the queries use the configured connections");
    $before = memory() if $round == 6;
}
wait_until('the connections are closed', sub { $relay->metric('clairon_gate_connections') == 1 });
wait_until('no request waits', sub { $relay->metric('clairon_rows_waiting_requests') == 0 });
wait_until('the rows are released', sub { $relay->metric('clairon_rows_held_bytes') == 0 });
pass('the rows of disconnected clients are released');
is_bounded(32 * 1024, 'the memory does not grow with the number of disconnected clients');
is(reply_to('small'), 'rows', 'another client still receives its rows');

done_testing();
