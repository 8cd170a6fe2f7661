# Tests that the Web Push of a notification is sent to the users of its audience who have had no session since the commit,
# once, and is repeated until the push service accepts it.
use strict;
use warnings;

use Clairon::Test qw(wait_until token scratch);
use Clairon::Test::PushService;
use Clairon::Test::RawSocket;
use JSON ();
use POSIX ();
use Test::More;

plan skip_all => 'node is not installed' if system('node --version >/dev/null 2>&1') != 0;

my $program = Clairon::Test::program();
system("umask 077; '$program' vapid >'@{[ scratch() ]}/vapid'") == 0 or die "could not create a key\n";
my $service = Clairon::Test::PushService->new;
my $store   = Clairon::Test::store();
my %conf    = ('webpush.vapid_key_file' => scratch() . '/vapid', 'webpush.subject' => 'mailto:ops@example.org', 'webpush.app_url' => 'https://app.example/start',
    'webpush.origins' => $service->origin, 'webpush.allow_private' => 'on', 'webpush.delay' => '500ms', 'delivery.backoff_base' => '100ms', 'store.shards' => 4);
my ($relay, $second) = map { Clairon::Test::relay(undef, $store, roles => $_, conf => \%conf) } 'gate,sink', 'gate';

sub http
{
    my ($claims, $method, $path, $body) = @_;
    return Clairon::Test::RawSocket->new($relay)->request($method, $path, ':body' => $body, Authorization => 'Bearer ' . token(%$claims));
}
sub subscribe { my ($user, $path) = @_; return http({ sub => $user }, POST => '/v1/webpush/subscriptions', $service->subscription($path))->{status} }
sub publish
{
    my ($web_push, $users, %more) = @_;
    return http({ sub => 'app', publish => JSON::true }, POST => '/v1/notifications', { payload => {}, ($web_push ? (web_push => $web_push) : ()),
        metadata => $more{metadata} // {}, routing => { audience => { type => $more{audience} // 'USER', targets => $users }, %{ $more{routing} // {} } } });
}
sub jobs { my $count = 0; $count += $store->execute('ZCARD', "clairon:{$_}:webpush") for 0 .. 3; return $count }
sub wait_done { wait_until('all Web Pushes are sent or dropped', sub { jobs() == 0 }); return }
sub sent { my ($path) = @_; return map { $_->{plain} ? JSON::decode_json($_->{plain})->{notification} : { error => $_->{error} } } $service->requests($path) }

# An absent user.
subscribe(u1 => '201/phone');
subscribe(u1 => '201/laptop');
subscribe(u2 => '201/u2');
my $response = publish({ title => 'New grade', body => 'Maths', url => '/assignments', app_badge => 3 }, ['u1'], metadata => { priority => 'HIGH', expiration => '2999-01-01T00:00:00Z' });
is($response->{status}, 201, 'a notification with web_push is accepted');
my %lifetime = map { $_ => $store->execute('PTTL', $_) } @{ $store->execute('KEYS', '*}:webpush*') };
is(scalar(keys %lifetime), 3, 'the store has the queue and its notification');
is(scalar(grep { $_ < 86400e3 } values %lifetime), 0, 'all outlive the expiration');
is($store->execute('PTTL', (sort keys %lifetime)[0]) > 0, 1, 'and end');
my $id = $response->{json}{id};
wait_done();
is_deeply([ sent('201/phone') ], [ { title => 'New grade', body => 'Maths', navigate => 'https://app.example/assignments', tag => $id, data => { id => $id } } ], 'an absent user receives the Web Push');
is(scalar(sent('201/laptop')), 1, 'on each device');
is(scalar(sent('201/u2')), 0, 'others do not');
my ($request) = $service->requests('201/phone');
is($request->{headers}{urgency}, 'high', 'its urgency is the priority');
is($request->{headers}{topic}, $id =~ s/-//gr, 'its topic is the id');
cmp_ok($request->{headers}{ttl}, '>', 86400, 'it lives until the expiration');
is(scalar(@{ $store->execute('KEYS', '*webpush:*') }), 0, 'nothing is left in the store');

# Users with a session, on any relay.
my $other = $second->client('u2');
publish({ title => 'Only for absent users' }, [ 'u1', 'u2' ]);
$other->wait_notifications(1);
unlike(JSON::encode_json([ $other->notifications ]), qr/web_push|Only for/, 'clients do not receive the text of the Web Push');
wait_done();
is(scalar(sent('201/u2')), 0, 'a user with a session on another relay receives no Web Push');
subscribe(u3 => '201/u3');
publish({ title => 'x' }, ['u3']);
my $short = $relay->client('u3');
$short->close;
wait_done();
is(scalar(sent('201/u3')), 0, 'nor does a user who was there for a moment after the commit');
$other->close;
wait_until('the end of the session is stored', sub { defined $store->execute('ZSCORE', 'clairon:{0}:last_seen', 'u2') });
is_deeply($store->execute('KEYS', '*last_seen'), ['clairon:{0}:last_seen'], 'in one shard');
cmp_ok($store->execute('PTTL', 'clairon:{0}:last_seen'), '>', 0, 'for a time');
publish({ title => 'x' }, ['u2']);
wait_done();
is(scalar(sent('201/u2')), 1, 'a user who left before the commit receives it');

# An acknowledgement before the delay.
subscribe(u4 => '201/u4');
$id = publish({ title => 'x' }, ['u4'], routing => { retry => { ack_required => JSON::true } })->{json}{id};
http({ sub => 'u4' }, POST => '/v1/ack', { ids => [$id] });
wait_done();
is(scalar(sent('201/u4')), 0, 'what was acknowledged meanwhile is not sent');
$id = publish({ title => 'x' }, ['u4'], routing => { retry => { ack_required => JSON::true } })->{json}{id};
wait_done();
is(scalar(sent('201/u4')), 1, 'a pending notification is');
my ($pushed) = sent('201/u4');
my $ticket = $pushed->{data}{ticket};
like($ticket, qr/^[0-9a-f]{32}$/, 'it contains a ticket');
is($pushed->{navigate}, "https://app.example/start#clairon=$ticket", 'also in the URL, for browsers that run no worker');
sub spend { my ($body) = @_; return Clairon::Test::RawSocket->new($relay)->request(POST => '/v1/ack', ':body' => $body, 'Content-Type' => 'text/plain')->{status} }
is(spend({ ticket => 'f' x 32 }), 410, 'an unknown ticket is rejected');
is(spend({ ids => [$id] }), 401, 'ids require a token');
is(spend({ ticket => 'x' }), 401, 'as does what is no ticket');
is(spend({ ticket => $ticket, more => 'x' x 2000 }), 401, 'a large body requires a token');
is(spend({ ticket => $ticket }), 204, 'the ticket acknowledges without a token');
wait_until('the notification is acknowledged', sub { grep { $_->{stage} eq 'acked' && $_->{user} eq 'u4' } @{ http({ sub => 'app', publish => JSON::true }, GET => "/v1/notifications/$id")->{json}{events} } });
is(spend({ ticket => $ticket }), 410, 'it can be used once');
unlike($relay->log_text, qr/$ticket/, 'it is in no log');
my $trace = http({ sub => 'app', publish => JSON::true }, GET => "/v1/notifications/$id")->{json};
is_deeply([ map { "$_->{stage} $_->{user}" } grep { $_->{stage} eq 'pushed' } @{ $trace->{events} } ], ['pushed u4'], 'its trace contains the Web Push');

# The endpoint has another user by then.
subscribe(u5 => '201/shared');
publish({ title => 'secret' }, ['u5']);
subscribe(u6 => '201/shared');
wait_done();
is(scalar(sent('201/shared')), 0, 'a Web Push for the former user of an endpoint is dropped');

# A push service that fails is retried, others are not.
subscribe(u7 => $_) for qw(once-500/a 201/u7);
publish({ title => 'x' }, ['u7']);
wait_done();
is(scalar(sent('once-500/a')), 2, 'a Web Push is repeated after an error of the push service');
is(scalar(sent('201/u7')), 1, 'but not for the subscription that has received it');
subscribe(u8 => '403/u8');
publish({ title => 'x' }, ['u8']);
wait_done();
is(scalar(sent('403/u8')), 1, 'a rejected one is not repeated');
subscribe(u9 => '500/u9');
publish({ title => 'x' }, ['u9'], metadata => { expiration => POSIX::strftime('%Y-%m-%dT%H:%M:%SZ', gmtime(time + 3)) });
wait_done();
cmp_ok(scalar(sent('500/u9')), '>', 1, 'one that fails is repeated until the expiration');
is($relay->metric('clairon_sink_dropped_total{sink="webpush"}'), 1, 'then it is counted as dropped');
cmp_ok($relay->metric('clairon_sink_failures_total{sink="webpush"}'), '>=', scalar(sent('500/u9')), 'each failure is counted');
cmp_ok($relay->metric('clairon_sink_last_success_timestamp_seconds{sink="webpush"}'), '>', time - 3600, 'as is the time of the last success');
wait_until('no Web Push is counted as waiting', sub { !grep { $relay->metric(qq(clairon_sink_$_\{sink="webpush"})) > 0 } qw(backlog_receipts oldest_seconds) });

# What a dead relay has taken is sent by another one.
subscribe(u10 => 'once-hang/a');
publish({ title => 'x' }, ['u10']);
wait_until('the push service has received the request', sub { sent('once-hang/a') });
$_->kill9 for $relay, $second;
$relay->start;
$relay->wait_ready;
wait_done();
is(scalar(sent('once-hang/a')), 2, 'a request of a killed relay is repeated');

# The URL must be at the application's origin.
subscribe(u11 => '201/u11');
publish({ title => 'x', url => 'https://evil.example/' }, ['u11']);
wait_done();
is(scalar(sent('201/u11')), 0, 'a Web Push with the URL of another origin is not sent');
is($relay->metric('clairon_webpush_denied_total{reason="url"}'), 1, 'but counted');
publish({ title => 'x', icon => 'i' x 3990 }, ['u11']);
wait_done();
is($relay->metric('clairon_webpush_denied_total{reason="text"}'), 1, 'one without room for its title is counted as text');
is($relay->metric('clairon_webpush_denied_total{reason="url"}'), 1, 'not as url');
publish({ title => 'x', collapse => 'grades' }, ['u11']) for 1, 2;
wait_done();
my %topics = map { $_->{headers}{topic} => 1 } $service->requests('201/u11');
is(scalar(keys %topics), 1, 'those with the same value of collapse have one topic');

# Subscriptions whose keys cannot be used.
subscribe(u12 => '201/u12');
my ($list) = @{ $store->execute('KEYS', '*subscriptions:u12') };
my ($field, $value) = @{ $store->execute('HGETALL', $list) };
my @words = split / /, $value;
$words[-3] = 'A' x 87;
$store->execute('HSET', $list, $field, join ' ', @words);
publish({ title => 'x' }, ['u12']);
wait_done();
is($relay->metric('clairon_webpush_denied_total{reason="subscription"}'), 1, 'a subscription whose keys cannot be used is counted');
like($relay->log_text, qr/component=webpush level=warn [^\n]*could not encrypt for a subscription/, 'and logged');

# Invalid texts.
for my $case ([ { body => 'x' }, 'web_push.title is required' ], [ { title => 'x', silent => JSON::true }, 'web_push has an unknown member: silent' ], [ 'x', 'web_push is not a JSON object' ])
{
    $response = publish($case->[0], ['u1']);
    is($response->{status}, 400, "$case->[1]: rejected");
    like($response->{json}{detail}, qr/^\Q$case->[1]\E/, 'with the name of the member');
}
like(publish({ title => 'x' }, ['u1'], metadata => { type => 'REALTIME' })->{json}{detail}, qr/^web_push .*REALTIME/, 'REALTIME is rejected');
like(publish({ title => 'x' }, [], audience => 'ALL')->{json}{detail}, qr/^web_push .*ALL/, 'the audience ALL is rejected');
$relay->stop;

# The role sink sends, without the role gate.
$relay->configure('relay.roles' => 'gate');
$relay->start;
$relay->wait_ready;
subscribe(u13 => '201/u13');
publish({ title => 'x' }, ['u13']);
is(jobs(), 1, 'a relay without the role sink leaves Web Pushes in the store');
my $admin = Clairon::Test::free_port();
my $sink = Clairon::Test::relay(undef, $store, roles => 'sink', wait => 0, conf => { %conf, 'gate.admin_listen' => "127.0.0.1:$admin" });
wait_done();
is(scalar(sent('201/u13')), 1, 'a relay with only the role sink sends them');
$sink->{port} = $admin;
is(($sink->get('/readyz'))[0], 200, 'and is ready');
$_->stop for $sink, $relay;

$relay->configure('webpush.vapid_key_file' => undef);
$relay->start;
$relay->wait_ready;
like(publish({ title => 'x' }, ['u1'])->{json}{detail}, qr/^web_push requires webpush\.vapid_key_file/, 'web_push without a key is rejected');
is(publish(undef, ['u1'])->{status}, 201, 'notifications without it are accepted');
is(spend({ ticket => 'f' x 32 }), 401, 'an acknowledgement without a token is rejected');
$store->execute('DEL', 'clairon:{0}:last_seen');
$short = $relay->client('u3');
wait_until('the session is stored', sub { grep { $store->execute('SISMEMBER', $_, 'u3') } @{ $store->execute('KEYS', 'clairon:{0}:presence:*') } });
$short->close;
wait_until('its end is stored', sub { !grep { $store->execute('SISMEMBER', $_, 'u3') } @{ $store->execute('KEYS', 'clairon:{0}:presence:*') } });
is($store->execute('EXISTS', 'clairon:{0}:last_seen'), 0, 'the store does not record when users were last seen');

done_testing();
