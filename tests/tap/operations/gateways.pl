# Tests two relays behind nginx, HAProxy and Caddy with the configurations in docker/. A rolling restart, with some seconds
# between stop and start, causes no error at a client except a bye, and loses no notification. A loss of PostgreSQL causes
# no error.
use strict;
use warnings;

use Clairon::Test qw(wait_until token amount);
use Clairon::Test::Gateway;
use Clairon::Test::RawSocket;
use JSON ();
use Mojo::IOLoop;
use Mojo::UserAgent;
use Test::More;

plan skip_all => 'node is not installed' if system('node --version >/dev/null 2>&1') != 0;

use constant { SOCKETS => 8, POST_INTERVAL => 0.05, DOWN_SECONDS => amount(2, 6) };

my $json = JSON->new->utf8;

# Clients of one gateway. They repeat their requests until `is_ending`, and count each failure by its description.
package Load
{
    use Time::HiRes qw(time);

    sub new
    {
        my ($class, $name, $port) = @_;
        my $agent = Mojo::UserAgent->new(request_timeout => 0, inactivity_timeout => 0, connect_timeout => 20, max_redirects => 0, max_connections => 20);
        my $self = bless { name => $name, url => "http://127.0.0.1:$port", agent => $agent, failures => {}, counts => {}, open => 0 }, $class;
        $self->open_socket($_) for 1 .. main::SOCKETS;
        $self->poll("p$_") for 1, 2;
        $self->stream;
        return $self;
    }

    sub bearer { return { Authorization => 'Bearer ' . main::token(sub => $_[0], publish => \1) } }
    sub failed { my ($self, $what) = @_; $self->{failures}{$what}++; return }
    sub repeat { my ($self, $after, $next) = @_; Mojo::IOLoop->timer($after => $next) unless $self->{is_ending}; return }

    # A client may receive a bye, and reconnects after its delay.
    sub open_socket
    {
        my ($self, $number) = @_;
        my ($bye, $is_open);
        my $again = sub { $self->repeat(($bye ? $bye->{in} : 100) / 1000, sub { $self->open_socket($number) }) };
        $self->{agent}->websocket("$self->{url}/v1/ws" => ['clairon.v1.json'] => sub {
            my ($agent, $tx) = @_;
            if (!$tx->is_websocket)
            {
                $self->failed('WebSocket: ' . ($tx->res->code // 'no response'));
                return $again->();
            }
            $tx->on(text => sub {
                for my $line (map { $json->decode($_) } split /\n/, $_[1])
                {
                    if    ($line->{t} eq 'bye')       { $bye = $line }
                    elsif ($line->{t} eq 'err')       { $self->failed("err $line->{code}") }
                    elsif ($line->{t} eq 'connected') { $self->{open}++; $is_open = 1 }
                }
            });
            $tx->on(finish => sub {
                $self->{open}-- if $is_open;
                $self->failed('WebSocket closed without bye 4201') if !$self->{is_ending} && ($bye->{code} // 0) != 4201;
                $again->();
            });
            $tx->send($json->encode({ t => 'connect', r => 1, token => main::token(sub => "w$number") }));
        });
        return;
    }

    sub poll
    {
        my ($self, $user, $pos) = @_;
        $self->{agent}->get("$self->{url}/v1/poll?wait=20" . ($pos ? "&pos=$pos" : '') => bearer($user) => sub {
            my $response = $_[1]->res;
            my $next     = $response->headers->header('Clairon-Pos');
            my $is_good  = ($response->code // 0) =~ /^20[04]$/ && $next;
            $self->failed('poll: ' . ($response->code // 'no response')) if !$is_good && !$self->{is_ending};
            $self->{counts}{poll}++ if $is_good;
            $self->repeat($is_good ? 0 : 0.2, sub { $self->poll($user, $next // $pos) });
        });
        return;
    }

    sub stream
    {
        my ($self) = @_;
        my $received = '';
        my $tx = $self->{agent}->build_tx(GET => "$self->{url}/v1/sse" => bearer('s1'));
        $tx->res->content->unsubscribe('read')->on(read => sub { $received .= $_[1]; $self->{counts}{stream}++ if $_[1] =~ /"connected"/ });
        $self->{agent}->start($tx => sub {
            $self->failed('stream ended without bye 4201: ' . ($_[1]->res->code // 'no response'))
              if !$self->{is_ending} && $received !~ /"bye","code":4201/;
            $self->repeat(0.1, sub { $self->stream });
        });
        return;
    }

    sub start_publishing
    {
        my ($self) = @_;
        $self->{timer} //= Mojo::IOLoop->recurring(main::POST_INTERVAL => sub { $self->publish });
        return;
    }

    sub publish
    {
        my ($self) = @_;
        my $key = ++$self->{published};
        $self->{agent}->post("$self->{url}/v1/notifications" => { %{ bearer('poster') }, 'Idempotency-Key' => "$self->{name}$key" },
            json => { payload => { nr => $key }, routing => { audience => { type => 'USER', targets => ['p1'] } } } => sub {
                my $code = $_[1]->res->code // 'no response';
                $self->{counts}{publish}++ if $code eq '201';
                $self->failed("POST: $code") if $code ne '201' && !$self->{is_ending};
            });
        return;
    }

    sub end
    {
        my ($self) = @_;
        Mojo::IOLoop->remove($self->{timer});
        $self->{is_ending} = 1;
        delete $self->{agent};
        return;
    }
}

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner', ack_required => true);
    CREATE TABLE enough (yes bool);
    CREATE PROCEDURE write_rows() LANGUAGE plpgsql AS $$
    BEGIN
        FOR i IN 1 .. 1000000 LOOP
            INSERT INTO t VALUES (i, 'reader');
            COMMIT;
            EXIT WHEN EXISTS (SELECT FROM enough);
            PERFORM pg_sleep(0.03);
        END LOOP;
    END $$});
my $store  = Clairon::Test::store();
my @relays = map {
    Clairon::Test::relay($pg, $store, conf => { 'gate.notice' => '2s', 'gate.drain' => '500ms', 'gate.trusted_proxies' => '127.0.0.1' }) } 1, 2;

my @names    = Clairon::Test::Gateway::names();
my @gateways = map { Clairon::Test::Gateway->new($_, \@relays) } grep { Clairon::Test::Gateway::is_installed($_) } @names;
plan skip_all => 'no gateway is installed' unless @gateways;
my $agent  = Mojo::UserAgent->new(request_timeout => 40, inactivity_timeout => 40);
my %bearer = (Authorization => 'Bearer ' . token(sub => 'u0', publish => \1));
for my $gateway (@gateways)
{
    my ($name, $url) = @{$gateway}{qw(name url)};
    wait_until("$name serves requests", sub { eval { $agent->get("$url/v1/poll?wait=0" => \%bearer)->result->code == 204 } });
    is($agent->get("$url$_")->result->code, 404, "$name does not forward $_") for qw(/metrics /readyz /console);
    is($agent->get("$url/v1/poll?wait=0" => { %bearer, Cookie => 'a' x 10_000 })->result->code, 204, "$name forwards 10 kB of headers");
    is($agent->post("$url/v1/notifications" => \%bearer => 'x' x 1_100_000)->result->code, 413, "$name rejects a body above 1 MB");
    is($agent->get("$url/v1/poll?wait=0" => { %bearer, Origin => $_->[0] })->result->code, $_->[1], "$name forwards Host: origin $_->[0]")
      for [ $url, 204 ], [ 'http://evil.example', 403 ];

    # A poll without a reply, and an event stream.
    my ($polling, $stream) = map { Clairon::Test::RawSocket->new($gateway) } 1, 2;
    $polling->begin(GET => '/v1/poll?wait=60', %bearer);
    $stream->begin(GET => '/v1/sse', %bearer);
    1 until $stream->{bytes} =~ /"connected"/ || !$stream->more;
    my $count = sub { my $sum = 0; $sum += $_->metric('clairon_gate_streams') for @relays; return $sum };
    wait_until('the poll and the stream are open', sub { $count->() == 2 });
    $_->disconnect for $polling, $stream;
    ok(eval { wait_until('they are closed', sub { $count->() == 0 }, 20) }, "$name: the relay ends requests of disconnected clients");
}
SKIP: {
    my @missing = grep { !Clairon::Test::Gateway::is_installed($_) } @names;
    skip "@missing: not installed", 1 if @missing;
    pass('all gateways are installed');
}

# Like wait_until; clients are served meanwhile.
sub run_until
{
    my ($what, $condition) = @_;
    my $deadline = time + $Clairon::Test::SECONDS;
    my $is_true;
    my $timer = Mojo::IOLoop->recurring(0.1 => sub { $is_true ||= $condition->() });
    Mojo::IOLoop->one_tick until $is_true || time > $deadline;
    Mojo::IOLoop->remove($timer);
    die "not within $Clairon::Test::SECONDS s: $what\n" if !$is_true;
    return;
}

my (@pages, @loads);

# Waits for some seconds, in which requests are served: each gateway that publishes does so ten more times.
sub serve
{
    my ($what, $seconds) = @_;
    my $end   = time + $seconds;
    my %posts = map { $_->{name} => $_->{counts}{publish} // 0 } @loads;
    run_until($what, sub { time > $end && !grep { $_->{timer} && ($_->{counts}{publish} // 0) <= $posts{ $_->{name} } + 10 } @loads });
    return;
}

@pages = map { Clairon::Test::page(name => "page behind $_->{name}", websocket => 1, url => "$_->{url}/v1/ws", token => token(sub => 'reader')) } @gateways;
for my $page (@pages) { wait_until('a page is open', sub { ($page->state->{state} // '') eq 'open' }) }
@loads = map { Load->new($_->{name}, $_->{port}) } @gateways;
my $is_whole = sub { return !grep { $_->{open} != SOCKETS } @loads };
run_until('all clients are connected', sub { $is_whole->() && !grep { !$_->{counts}{stream} } @loads });
my $writer = IPC::Run::start([ 'psql', '-qAtX', '-d', $pg->connstr('postgres'), '-c', 'CALL write_rows()' ]);

# The relays are restarted in turn, at the same time for all gateways. At first, no request ends: with short requests, a gateway
# that marks a stopped relay as failed would use it again.
my @stops = ((map { [ $_, 0 ] } @relays), [ $relays[0], 1 ]);
for (@stops)
{
    my ($relay, $is_publishing) = @$_;
    $_->start_publishing for $is_publishing ? @loads : ();
    kill TERM => $relay->pid;
    run_until('the relay stops', sub { !$relay->is_alive });
    is($relay->wait_end, 0, 'a relay exits with status 0');
    serve('the relay is down', DOWN_SECONDS);
    $relay->start;
    run_until('the relay is ready', sub { eval { ($relay->get('/readyz'))[0] == 200 } });
    run_until('all WebSockets are open', $is_whole);
    serve('the health checks have passed, as GATEWAYS.md requires before the next relay is stopped', 3);
}
$pg->safe_psql('postgres', 'INSERT INTO enough VALUES (true)');
ok($writer->finish, 'rows are written during the restarts');
my $rows = $pg->safe_psql('postgres', 'SELECT count(*) FROM t');
note("$rows rows; ", join ', ', map { "$_->{name}: $_->{counts}{publish} posts, $_->{counts}{poll} polls" } @loads);
run_until('the pages have all rows', sub { !grep { $_->rows < $rows } @pages });

# Without PostgreSQL, the relays are still ready.
$pg->stop('fast');
run_until('the relays have lost PostgreSQL', sub { !grep { ($_->get('/readyz'))[1] !~ /"feed":"down"/ } @relays });
serve('the health checks have passed without PostgreSQL', 3);
for my $i (0 .. $#gateways)
{
    my ($name, $page) = ($gateways[$i]{name}, $pages[$i]);
    is_deeply($loads[$i]{failures}, {}, "$name: clients receive no error");
    is_deeply([ $page->rows ], [ 1 .. $rows ], "$name: the page receives each row once, in order");
    is(join(' ', $page->problems), '', "$name: the page reports no gap and no error");
}
$_->end for @loads;
wait_until('all notifications are acknowledged', sub { $store->pending == 0 });
kill TERM => $_->pid for @pages;
$_->wait_end for @pages;

done_testing();
