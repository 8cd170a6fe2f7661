# Tests that the memory of a relay does not grow with the number of slow recipients of a large notification: over
# WebSocket, TLS, server-sent events and polls, live and at a resume. Other users receive their notifications meanwhile.
use strict;
use warnings;

use Clairon::Test qw(wait_until token amount);
use Clairon::Test::EventStream;
use Clairon::Test::Neighbour;
use Clairon::Test::RawSocket qw(TEXT PING PONG);
use Clairon::Test::SecureSocket;
use Digest::MD5 qw(md5_hex);
use HTTP::Tiny;
use Socket qw(SOL_SOCKET SO_RCVBUF);
use Test::More;

my $has_tls = eval { require IO::Socket::SSL; 1 };
my $clients = amount(60, 200);
my $owners  = 8;
my $columns = 15;
my $value   = 500_000;                                # bytes of a column, in `before` and in `after`
my $line_kb = 2 * $columns * $value / 1024;
my $limit   = 6;                                      # in lines: buffers of the store connection, the notification, and one that is being read

my $pg = Clairon::Test::postgresql('main');
my @names = map { "c$_" } 1 .. $columns;
$pg->safe_psql('postgres', qq{
    CREATE TABLE large (id int PRIMARY KEY, @{[ join ', ', map { "$_ text" } @names ]});
    ALTER TABLE large REPLICA IDENTITY FULL;
    INSERT INTO large SELECT 1, @{[ join ', ', map { "repeat(md5('$_ 0'), $value / 32)" } @names ]};
    CREATE TABLE own (LIKE large, owner text);
    ALTER TABLE own REPLICA IDENTITY FULL;
    INSERT INTO own SELECT large.*, 'own' || i FROM large, generate_series(1, $owners) i;
    SELECT clairon.watch('own', 'USER', 'owner', type => 'NOTIFICATION');
    CREATE TABLE small (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('large', 'ALL'); SELECT clairon.watch('small', 'USER', 'owner', type => 'NOTIFICATION')});
my $store  = Clairon::Test::store();
my $feed   = Clairon::Test::relay($pg, $store, roles => 'feed');
my ($cert, $key) = $has_tls ? Clairon::Test::SecureSocket::certificate() : ();
my %patient = ('gate.ping' => '10m', 'gate.slow_age' => '10m', 'gate.slow_bytes' => '100MB');
my $metrics = 'http://127.0.0.1:' . Clairon::Test::free_port();
my $relay = start_relay();
my ($versions, $alices) = (0, 0);

sub start_relay
{
    my (%conf) = @_;
    $metrics =~ s/^http:/https:/ if $conf{'gate.tls_cert'};
    my $new = Clairon::Test::relay(undef, $store, roles => 'gate', wait => 0, conf => { %patient, 'gate.admin_listen' => $metrics =~ s{.*/}{}r, %conf });
    wait_until('the relay is ready', sub { get('/readyz')->{success} });
    return $new;
}

sub get { my ($path) = @_; return HTTP::Tiny->new(verify_SSL => 0)->get($metrics . $path) }

sub metric
{
    my ($name) = @_;
    return get('/metrics')->{content} =~ /^$name (\S+)$/m ? $1 : die "no metric $name\n";
}

sub memory
{
    my ($name, $pid) = (@_, $relay->pid);
    open my $file, '<', "/proc/$pid/status" or die "could not read the status of the relay: $!\n";
    return (join('', <$file>) =~ /^$name:\s+(\d+) kB/m)[0];
}

# Resets the peak. Returns the current size.
sub start_peak
{
    my $pid = $relay->pid;
    open my $file, '>', "/proc/$pid/clear_refs" or die "could not reset the peak: $!\n";
    print {$file} "5\n";
    close $file;
    return memory('VmRSS');
}

# A client that reads no more than its connection needs.
sub with_small_buffer { my ($raw) = @_; setsockopt $raw->{link}, SOL_SOCKET, SO_RCVBUF, 65536 or die "setsockopt: $!\n"; return $raw }

sub websocket
{
    my ($user, %options) = @_;
    my $raw = with_small_buffer(Clairon::Test::RawSocket->open($relay));
    $raw->send_json({ t => 'connect', r => 1, token => token(sub => $user), %options });
    $raw->wait_message('connected') unless $options{pos};
    return $raw;
}

sub poll
{
    my ($user, $pos) = @_;
    my $raw = with_small_buffer(Clairon::Test::RawSocket->new($relay));
    $raw->begin(GET => '/v1/poll?wait=60' . ($pos ? "&pos=$pos" : ''), Authorization => 'Bearer ' . token(sub => $user));
    return $raw;
}

sub event_stream
{
    my ($user) = @_;
    my $stream = with_small_buffer(Clairon::Test::EventStream->open($relay, $user));
    $stream->wait_message('connected');
    return $stream;
}

# Writes a new version of the large row.
sub update
{
    $versions++;
    $pg->safe_psql('postgres', "UPDATE large SET " . join ', ', map { "$_ = repeat(md5('$_ $versions'), $value / 32)" } @names);
    return;
}

# The JSON of all columns of this version.
sub columns { my ($version) = @_; return join ',', map { qq{"$_":"} . md5_hex("$_ $version") x int($value / 32) . '"' } @names }

sub delivered { return metric('clairon_hub_delivered_total') }

sub alice_receives
{
    my ($alice, $when) = @_;
    $alices++;
    $pg->safe_psql('postgres', "INSERT INTO small VALUES ($alices, 'alice')");
    my $line = $alice->wait_message('msg');
    $line = $alice->wait_message('msg') while $line->{n}{metadata}{source} ne 'small';
    is($line->{n}{payload}{after}{id}, $alices, "another user receives a notification $when");
    return;
}

# True if the line has this version of the large row as `after`.
sub has_version { my ($line, $version) = @_; return index($line, '"after":{"id":1,' . columns($version) . '}') > 0 }

# Runs `$act` and checks the peak of the memory after `$count` recipients were served.
sub check_peak
{
    my ($what, $count, $act) = @_;
    my $served = delivered() + $count;
    my $before = start_peak();
    my $result = $act->();
    wait_until("$what: the notification is written to all sockets or kept for them", sub { delivered() >= $served }, amount(120, 600));
    my $lines = (memory('VmHWM') - $before) / $line_kb;
    cmp_ok($lines, '<', $limit, sprintf '%s: %d slow clients need the memory of few notifications', $what, $count);
    note(sprintf '%s: %d clients, %.1f notifications', $what, $count, $lines);
    return $result;
}

# The rest of a partly written frame is followed by replies to WebSocket pings, never interrupted by them.
sub check_websockets
{
    my ($what, @readers) = @_;
    $_->frame(PING, 'are you there') for @readers;
    for my $raw (@readers)
    {
        my @frames = map { $raw->next_frame // die "the relay closed the connection\n" } 1 .. 2;
        my ($large) = grep { $_->{opcode} == TEXT } @frames;
        ok(has_version($large->{payload}, $versions), "$what: a slow client receives the whole notification");
        is_deeply([ map { $_->{payload} } grep { $_->{opcode} == PONG } @frames ], ['are you there'], "$what: its ping receives a reply between two frames");
    }
    return;
}

sub check_live
{
    my ($what, $open) = @_;
    my $alice = websocket('alice', topics => ['postgres.small']);
    my @slow = map { $open->("u$_") } 1 .. $clients;
    check_peak("$what, live", $clients, \&update);
    alice_receives($alice, "while $clients clients do not read ($what)");
    return @slow;
}

sub disconnect
{
    my (@all) = @_;
    $_->disconnect for @all;
    wait_until('the connections are closed', sub { metric('clairon_gate_connections') <= 1 });
    return;
}

# A neighbour's row, while a table owner writes large rows to one slow client, and to many.
my $neighbour = Clairon::Test::Neighbour->new($pg, $relay, topics => ['postgres.alice.orders']);
$pg->safe_psql('postgres', 'GRANT SELECT ON large TO mallory');
$neighbour->run_as('mallory', "CREATE TABLE mallory.large (LIKE public.large); ALTER TABLE mallory.large REPLICA IDENTITY FULL;
    SELECT clairon.watch('mallory.large', 'TEAM', 'id'); INSERT INTO mallory.large (id) VALUES (1), (2)");
$pg->safe_psql('postgres', q{INSERT INTO clairon.member SELECT 'TEAM', '2', 'u' || i FROM generate_series(1, 1000) i UNION ALL VALUES ('TEAM', '1', 'reader')});
sub large_row { my ($id) = @_; return 'UPDATE mallory.large SET ' . join(', ', map { "$_ = repeat('x', $value)" } @names) . " WHERE id = $id;\n" }
my @crowd = websocket('reader');
my $honest = $neighbour->worst_delay('large rows to one slow client', large_row(1) x 2);
push @crowd, map { websocket("u$_") } 1 .. $clients;
my $attack = $neighbour->worst_delay("large rows to $clients slow clients", large_row(2) x 2);
$neighbour->is_unnoticed('large rows to slow clients', $attack, $honest);
$neighbour->{client}->close;
disconnect(@crowd);

# WebSocket
my @slow = check_live('WebSocket', \&websocket);
check_websockets('WebSocket', @slow[ 0, 1 ]);
disconnect(@slow);

# Server-sent events
@slow = check_live('server-sent events', \&event_stream);
my $event = $slow[0]->event;
is($event->{n}{payload}{after}{c1}, md5_hex("c1 $versions") x int($value / 32), 'server-sent events: a slow client receives the whole notification');
isnt($slow[0]{id}, undef, 'server-sent events: the event ends with its id');
disconnect(@slow);

# Polls
my $pos = websocket('u0')->{messages}[0]{pos};    # before the next notification
@slow = check_live('polls', \&poll);
my $response = $slow[0]->read_response;
is($response->{status}, 200, 'polls: the response has the status 200');
is(length $response->{body}, $response->{headers}{'content-length'}, 'polls: the response has the announced length');
ok(has_version($response->{body}, $versions), 'polls: a slow client receives the whole notification');
disconnect(@slow);

# A resume reads the same entries from the store for each session.
my $resumed = amount(12, 60);
sub store_memory { my ($name) = @_; return ($store->execute('INFO', 'memory') =~ /^$name:(\d+)/m)[0] / 1024 }

$relay->stop;
$relay = start_relay();
my $store_before = store_memory('used_memory');
my $alice = websocket('alice', topics => ['postgres.small']);
check_peak('WebSocket, resumed', $resumed, sub { @slow = map { websocket("u$_", pos => $pos) } 1 .. $resumed });
alice_receives($alice, "while $resumed clients resume");
cmp_ok((store_memory('used_memory_peak') - $store_before) / $line_kb, '<', 10, 'few replies of the store contain the notification simultaneously');
$slow[0]->wait_message('connected');
my $large = $slow[0]->next_frame;
ok(has_version($large->{payload}, $versions), 'WebSocket, resumed: a slow client receives the whole notification');
disconnect(@slow);
check_peak('polls, resumed', $resumed, sub { @slow = map { poll("u$_", $pos) } 1 .. $resumed });
$response = $slow[0]->read_response;
is($response->{status}, 200, 'polls, resumed: the response has the status 200');
disconnect(@slow);

# Many large notifications, each for one client: the unsent bytes of all clients are limited.
$relay->stop;
$relay = start_relay('delivery.shed_bytes' => '16MB');    # so that the limit is its minimum, 64 MB
my @own = map { websocket("own$_") } 1 .. $owners;
$alice = websocket('alice', topics => ['postgres.small']);
$pg->safe_psql('postgres', "UPDATE own SET c1 = repeat(md5(owner), $value / 32)");
wait_until('clients that accept nothing are closed with 4101', sub { $relay->log_text =~ /code=4101 reason="unsent bytes of all clients exceed twice shed_bytes"/ });
wait_until('the bytes that wait for them are freed', sub { metric('clairon_hub_queued_bytes') < 64_000_000 });
pass('when the unsent bytes of all clients exceed their limit, clients that accept nothing are closed');
alice_receives($alice, 'while the unsent bytes of other clients exceed their limit');

# TLS
SKIP:
{
    skip 'IO::Socket::SSL is not installed', 1 unless $has_tls;
    $relay->stop;
    $relay = start_relay('gate.tls_cert' => $cert, 'gate.tls_key' => $key);
    my $open = sub { with_small_buffer(Clairon::Test::SecureSocket->user($relay, $_[0], $cert)) };
    @slow = map { $open->("u$_") } 1 .. $clients;
    check_peak('TLS, live', $clients, \&update);
    check_websockets('TLS', @slow[ 0, 1 ]);
}

done_testing();
