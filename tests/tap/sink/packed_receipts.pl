# Tests stream entries of several receipts: with those of an earlier release, which have one each, they reach the sinks and
# GET /v1/receipts; a relay acknowledges an entry after its last receipt; entries of a newer release remain pending.
use strict;
use warnings;
use utf8;

use Clairon::Test qw(wait_until token);
use Clairon::Test::Endpoint;
use Clairon::Test::RawSocket;
use Clairon::Test::Receipts;
use JSON ();
use Test::More;

my $pg       = Clairon::Test::postgresql('main');
my $store    = Clairon::Test::store();
my $receipts = Clairon::Test::Receipts->new($pg, $store);
my $endpoint = Clairon::Test::Endpoint->launch;
my @SINKS = qw(sql webhook);
my $feed  = Clairon::Test::relay($pg, $store, conf => { 'relay.roles' => 'feed,gate' });
sub sink { return Clairon::Test::relay($pg, $store, conf => { 'relay.roles' => 'gate,sink', 'receipts.sql' => 'true', $endpoint->settings, 'webhook.batch' => 4 }) }

# Receipts of each kind, with names that JSON escapes.
my @USERS = ('plain', 'a"b', '{"id":"', '},{"id":"', 'back\\slash', 'é€', '/:/', "tab\there");
$receipts->add(({}) x 3, { user_id => 'old "name"' });
my $names = JSON->new->encode(\@USERS);
$pg->safe_psql('postgres', qq~SELECT clairon.notify('USER', ARRAY(SELECT jsonb_array_elements_text(\$\$$names\$\$)), '{}',
    ack_required => true, receipts => 'user', emitter => 'p"q', topic => 'a },{"id":"b') FROM generate_series(1, 20)~);
$pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{one}', '{}', ack_required => true, receipts => r) FROM unnest('{user,notification}'::text[]) r, generate_series(1, 5)});
wait_until('the notifications are stored', sub { $store->pending == 30 });
$feed->run('drop', '--source', 'notify');
$receipts->add({});
my $COUNT = 5 + 20 * (@USERS + 1) + 5 * 2 + 5;
my @all = map { $store->entries($_) } $store->keys('receipts');
is(scalar(@all), $COUNT, 'each notification has a receipt, each of its pairs, and the earlier ones are there');
my %entries = map { $_->{stream} . $_->{entry} => 1 } @all;
cmp_ok(scalar(keys %entries), '<', $COUNT / 3, 'many share an entry');
my %in_stream = map { $_->{id} => $_ } map { JSON->new->utf8->decode($_->{data}) } @all;
is_deeply([ grep { my $user = $_; !grep { $_->{user_id} eq $user } values %in_stream } @USERS ], [], 'with the names of the users');

# GET /v1/receipts.
sub get { my ($query) = @_; return Clairon::Test::RawSocket->new($feed)->request(GET => "/v1/receipts$query", Authorization => 'Bearer ' . token(sub => 'op', admin => JSON::true)) }
sub pages { my ($limit) = @_;
    my ($next, @read) = '';
    while (1)
    {
        my $page = JSON->new->utf8->decode(get("?limit=$limit" . ($next && "&after=$next"))->{body});
        my @page = @{ $page->{receipts} } or return @read;
        fail('a page has at most limit receipts') if @page > $limit;
        push @read, @page;
        return if @read > $COUNT;
        $next = $page->{next};
    } }
for my $limit (1, 7, 1000)
{
    my @read = pages($limit);
    is(scalar(@read), $COUNT, "pages of $limit have each receipt once");
    is_deeply({ map { $_->{id} => $_ } @read }, \%in_stream, 'as they are in the stream');
}
is(get("?after=1-1.$_")->{status}, 400, "a cursor that ends in '.$_' is rejected") for '', 'x', '1234', '1.1', '-1';

# The sinks.
my @newer = $receipts->add_entry(0, z => 1, y => 2);
my $sink = sink();
$receipts->{ids} = { %{ $receipts->{ids} }, map { $_ => 1 } keys %in_stream };
$receipts->wait_all;
my $columns = join ', ', qw(user_id outcome round attempts emitter source topic acked recipients), map { "to_char($_ AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') AS $_" } qw(at delivered_at);
my $rows = JSON->new->utf8->decode($pg->safe_psql('postgres',
    qq{SELECT json_object_agg(notification || ':' || user_id || ':' || outcome || ':' || round, row_to_json(r)) FROM (SELECT notification, $columns FROM clairon.receipt) r}));
is_deeply($rows, { map { my %row = %$_; delete $row{id}; ($_->{id} => \%row) } values %in_stream }, 'each receipt is one row');
my @sent;
wait_until('the webhook has received each receipt', sub { @sent = $endpoint->received; @sent >= $COUNT });
is_deeply([ sort @sent ], [ sort keys %in_stream ], 'the webhook has received each receipt once, in batches that divide entries');
is_deeply({ map { $_->{id} => $_ } map { @{ $_->{json}{receipts} } } $endpoint->requests }, \%in_stream, 'as it is in the stream');
for my $group (@SINKS)
{
    wait_until("all but the entry of a newer release are acknowledged by $group", sub { $receipts->pending($group) == 1 });
}

# The first batch of an entry is taken, and the others fail.
sub pending_of { my ($group) = @_; return $receipts->pending($group) - 1 }
$endpoint->reply(500);
my @packed = $receipts->add_packed(0, 30);
wait_until('the webhook fails', sub { grep { $_->{status} == 500 } $endpoint->requests });
wait_until('the sql sink acknowledges the entry', sub { $receipts->row_count == $COUNT + 30 && pending_of('sql') == 0 });
is(pending_of('webhook'), 1, 'the webhook does not');
$sink->kill9;
my $other = sink();
$endpoint->reply(200);
my %had;
wait_until('another relay sends all receipts of the entry', sub { @had{ $endpoint->received } = (); !grep { !exists $had{$_} } @packed });
wait_until('and acknowledges it', sub { pending_of('webhook') == 0 });
is($other->metric('clairon_sink_dropped_total{sink="webhook"}'), 0, 'no receipt was dropped');
wait_until('the entry of the newer release was claimed too, and remains pending', sub { $receipts->pending($_) == 1 }) for @SINKS;

# An entry that cannot be read does not block the others.
$receipts->add_entry(0, n => 1, d => 'x', t => '{', $packed[0] => 'u');
my ($last) = $receipts->add({});
wait_until('later receipts are sent', sub { grep { $_ eq $last } $endpoint->received });
wait_until('a damaged entry counts as dropped', sub { $other->metric('clairon_sink_dropped_total{sink="webhook"}') == 1 });
wait_until('and is acknowledged', sub { pending_of('webhook') == 0 });
done_testing();
