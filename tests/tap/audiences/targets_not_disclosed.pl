# Tests that delivery.hide_targets hides targets from recipients on all transports, for any payload.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::EventStream;
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => { 'delivery.hide_targets' => 'on', 'delivery.ack_timeout' => '200ms', 'delivery.backoff_base' => '50ms' });
my $json  = JSON->new->utf8->canonical;
my $forged = '"targets":["fake"]},"retry":{"ack_required":true}}}';
# The routing JSON occurs in strings, in keys, and as members of the payload.
my $payload = { text => $forged, $forged => 1, routing => { audience => { type => 'X', targets => ['kept'] }, retry => { limit => 1 } }, targets => ['kept', $forged] };
my @targets = ('u1', 'secret1', "a\"]},\"retry\":{", '"targets":[');

sub http
{
    my ($method, $path, %options) = @_;
    return Clairon::Test::RawSocket->new($relay)->request($method, $path, ':body' => $options{body},
        Authorization => 'Bearer ' . token(sub => 'api', publish => JSON::true));
}
sub publish
{
    my (%retry) = @_;
    my $response = http(POST => '/v1/notifications', body => { payload => $payload,
        routing => { audience => { type => 'USER', targets => \@targets }, retry => \%retry } });
    is($response->{status}, 201, 'a notification is stored');
    return $response->{json}{id};
}
sub check_hidden
{
    my ($name, $notification) = @_;
    is_deeply($notification->{routing}{audience}, { type => 'USER', targets => [] }, "$name: no target is disclosed");
    is_deeply($notification->{payload}, $payload, "$name: the payload is unchanged");
    return;
}

my $u1  = $relay->client('u1');
my $pos = $u1->pos;
my $sse = Clairon::Test::EventStream->open($relay, 'u1');
$sse->wait_message('connected');
my $id = publish();
check_hidden('WebSocket', $u1->wait_for('msg')->{n});
is($u1->{raw}[-1] =~ tr/\n//, 0, 'the frame is a single line');
check_hidden('SSE', $sse->next_notification);
my $resumed = $relay->client('u1', pos => $pos);
check_hidden('a resumed session', $resumed->wait_for('msg')->{n});
my $poll = Clairon::Test::RawSocket->new($relay)->request(GET => "/v1/poll?wait=0&pos=$pos", Authorization => 'Bearer ' . token(sub => 'u1'));
my ($line) = grep { /"t":"msg"/ } split /\n/, $poll->{body};
check_hidden('a poll', $json->decode($line)->{n});
is_deeply(http(GET => "/v1/notifications/$id")->{json}{notification}{routing}{audience}{targets}, \@targets,
    'the trace contains the targets');

# Targets are also hidden in retries, the pending list of an absent user, and the error log.
$id = publish(ack_required => JSON::true, limit => 1, backoff => 'FIXED');
my $copy = $u1->wait_for(sub { ($_[0]{n}{metadata}{id} // '') eq $id && $_[0]{n}{routing}{retry}{attempts} == 1 });
check_hidden('a retry', $copy->{n});
check_hidden('a pending list', $relay->client('secret1')->wait_for(sub { ($_[0]{n}{metadata}{id} // '') eq $id })->{n});
wait_until('the notification is exhausted', sub { $store->execute('XLEN', $store->shared('errors')) > 0 });
my ($code, $out) = $relay->run('errors', 'list');
like($out, qr/\Q$id\E/, 'the exhausted notification is in the error log');
my $late = $relay->client('u1');
($code) = $relay->run('errors', 'redrive', '--all');
my $again = $late->wait_for(sub { ($_[0]{n}{metadata}{id} // '') eq $id });
check_hidden('a redriven notification', $again->{n});

# Targets are also hidden in notifications that the decoder creates, for a row and for clairon.notify.
$pg->safe_psql('postgres', 'CREATE TABLE t (id int PRIMARY KEY, v text, who text[])');
$pg->safe_psql('postgres', q{SELECT clairon.watch('t', 'USER', 'who')});
$pg->safe_psql('postgres', qq{INSERT INTO t VALUES (1, '$forged', '{u1,secret1}')});
my $row = $u1->wait_for(sub { ($_[0]{n}{metadata}{source} // '') eq 't' })->{n};
is_deeply($row->{routing}{audience}, { type => 'USER', targets => [] }, 'a row discloses no target');
is($row->{payload}{after}{v}, $forged, 'routing JSON in a column is unchanged');
is_deeply($row->{payload}{after}{who}, [ 'u1', 'secret1' ], 'the target column of the payload is unchanged');
$pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{u1,secret1}', '} . $json->encode($payload) =~ s/'/''/gr . q{', source => 'n')});
check_hidden('clairon.notify', $u1->wait_for(sub { ($_[0]{n}{metadata}{source} // '') eq 'n' })->{n});
$pg->safe_psql('postgres', q{SELECT clairon.notify('ALL', '{}', '{"a":1}', source => 'all')});
is_deeply($u1->wait_for(sub { ($_[0]{n}{metadata}{source} // '') eq 'all' })->{n}{routing}{audience}, { type => 'ALL', targets => [] },
    'a notification for ALL has no targets');

# By default, targets are visible.
$relay->configure('delivery.hide_targets' => undef);
$relay->restart;
my $open = $relay->client('u1');
publish();
is_deeply($open->wait_for('msg')->{n}{routing}{audience}{targets}, \@targets,
    'by default, recipients receive all targets');
is($relay->stop, 0, 'SIGTERM ends the relay with status 0');
done_testing();
