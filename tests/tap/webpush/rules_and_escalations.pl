# Tests that rows, messages and escalations send Web Pushes: to the users known at the commit, once, and none after an
# acknowledgement.
use strict;
use warnings;

use Clairon::Test qw(wait_until token scratch);
use Clairon::Test::PushService;
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;
use Time::HiRes ();

plan skip_all => 'node is not installed' if system('node --version >/dev/null 2>&1') != 0;

my $program = Clairon::Test::program();
system("umask 077; '$program' vapid >'@{[ scratch() ]}/vapid'") == 0 or die "could not create a key\n";
my $service = Clairon::Test::PushService->new;
my $pg      = Clairon::Test::postgresql('main');
my $store   = Clairon::Test::store();
my %conf    = ('webpush.vapid_key_file' => scratch() . '/vapid', 'webpush.subject' => 'mailto:ops@example.org', 'webpush.app_url' => 'https://app.example/start',
    'webpush.origins' => $service->origin, 'webpush.allow_private' => 'on', 'webpush.delay' => '500ms', 'delivery.backoff_base' => '100ms', 'delivery.ack_timeout' => '1h');
my $relay = Clairon::Test::relay($pg, $store, conf => \%conf);

sub sql { return $pg->safe_psql('postgres', $_[0]) }
sub http { my ($claims, $method, $path, $body) = @_;
    return Clairon::Test::RawSocket->new($relay)->request($method, $path, ':body' => $body, Authorization => 'Bearer ' . token(%$claims)) }
sub subscribe { my ($user, $path) = @_; return http({ sub => $user }, POST => '/v1/webpush/subscriptions', $service->subscription($path // "201/$user")) }
sub queued { my $count = 0; $count += $store->execute('ZCARD', $_) for $store->keys('webpush'), $store->keys('webpush_large'); return $count }
sub sent { my ($path) = @_; return map { JSON::decode_json($_->{plain})->{notification} } $service->requests($path) }
sub titles { my ($user) = @_; return join ', ', map { $_->{title} } sent("201/$user") }
sub denied { my ($reason) = @_; return $relay->metric(qq{clairon_webpush_denied_total{reason="$reason"}}) }
# Waits until everything that was committed before is stored, and all Web Pushes are sent or dropped.
my ($marks, $marked) = (0, $relay->client('marked'));
sub wait_done
{
    my $mark = ++$marks;
    sql("SELECT clairon.notify('USER', '{marked}', '{\"mark\": $mark}')");
    $marked->run_until('the transactions before are stored', sub { grep { ($_->{payload}{mark} // 0) == $mark } $marked->notifications });
    wait_until('all Web Pushes are sent or dropped', sub { queued() == 0 });
    return;
}

sql(q{CREATE TABLE grade (id int PRIMARY KEY, who text, subject text, remark text, url text, unread int);
    ALTER TABLE grade ALTER remark SET STORAGE EXTERNAL;
    SELECT clairon.watch('grade', 'USER', 'who', type => 'NOTIFICATION', priority => 'HIGH',
        web_push => '{"title":"=New grade","body":":subject","url":":url","app_badge":":unread"}');
    SELECT clairon.watch('grade', 'USER', 'who', name => 'notes', type => 'NOTIFICATION', operations => '{update}', columns => '{remark,unread}',
        web_push => '{"title":":remark"}')});
subscribe($_) for qw(u1 u2 u3 m1 m2 m3 t1);

# Rows.
my $present = $relay->client('u2');
sql(q{INSERT INTO grade VALUES (1, 'u1', 'Maths', 'n', '/assignments', 3), (2, 'u2', 'Art', 'n', NULL, NULL), (3, NULL, 'Nobody', 'n', NULL, NULL)});
$present->wait_notifications(1);
unlike(JSON::encode_json([ $present->notifications ]), qr/web_push|New grade/, 'recipients do not receive the text');
wait_done();
my ($push) = sent('201/u1');
is_deeply($push, { title => 'New grade', body => 'Maths', navigate => 'https://app.example/assignments', tag => $push->{tag}, data => { id => $push->{tag} } },
    'a row is sent to an absent user, with the values of its columns');
my ($request) = $service->requests('201/u1');
is($request->{headers}{urgency}, 'high', 'its urgency is the priority of the rule');
is(JSON::decode_json($request->{plain})->{app_badge}, 3, 'its badge is a number');
is(titles('u2'), '', 'a user with a session receives none');
$present->close;
sql(q{INSERT INTO grade VALUES (4, 'u1', NULL, 'n', 'https://evil.example/', NULL)});
wait_done();
is(denied('url'), 1, 'a URL of another origin is counted');
is(titles('u1'), 'New grade', 'and not sent');

# No title, and one that the WAL does not contain.
sql(q{UPDATE grade SET remark = NULL WHERE id = 1; UPDATE grade SET remark = repeat('x', 5000) WHERE id = 1});
wait_done();
is(denied('title'), 1, 'a row without a title is counted');
sql('UPDATE grade SET unread = 4 WHERE id = 1');
wait_done();
is(denied('title'), 2, 'so is one whose title is not in the WAL');
is(scalar(grep { $_->{title} !~ /^x+$/ && $_->{title} ne 'New grade' } sent('201/u1')), 0, 'both send nothing');
sql(q{SELECT clairon.unwatch('grade', 'notes'); ALTER TABLE grade REPLICA IDENTITY FULL;
    SELECT clairon.watch('grade', 'USER', 'who', type => 'NOTIFICATION', operations => '{create,delete}', web_push => '{"title":":subject"}');
    INSERT INTO grade VALUES (5, 'u3', 'Before', 'n', NULL, NULL)});
wait_done();
sql(q{UPDATE grade SET subject = 'Last' WHERE id = 5; DELETE FROM grade WHERE id = 5});
wait_done();
is(titles('u3'), 'Before, Last', 'a delete has the title of the old row');

# Groups, with and without acknowledgements.
sql(q{INSERT INTO clairon.member VALUES ('STRUCTURE', 's1', 'm1'), ('STRUCTURE', 's1', 'm2'), ('STRUCTURE', 's2', 'm3')});
http({ sub => 't1', groups => { STRUCTURE => ['s1'] } }, GET => '/v1/poll?wait=0');
sql(q{SELECT clairon.notify('STRUCTURE', '{s1}', '{}', web_push => '{"title":"Meeting"}'),
    clairon.notify('STRUCTURE', '{s1}', '{}', ack_required => true, web_push => '{"title":"Vote"}')});
wait_done();
is(join('; ', map { join ', ', sort split /, /, titles($_) } qw(m1 m2 m3 t1)), 'Meeting, Vote; Meeting, Vote; ; ', 'the members at the commit receive it, not users of a token');
my ($vote) = grep { $_->{title} eq 'Vote' } sent('201/m1');
like($vote->{data}{ticket}, qr/^[0-9a-f]{32}$/, 'with acknowledgements it has a ticket');

# A group of more than 4 000 members.
subscribe($_) for qw(l1 l4100);
sql(q{INSERT INTO clairon.member SELECT 'STRUCTURE', 'large', 'l' || i FROM generate_series(1, 4100) AS i;
    SELECT clairon.notify('STRUCTURE', '{large}', '{}', web_push => '{"title":"All"}'),
    clairon.notify('STRUCTURE', '{large}', '{}', ack_required => true, web_push => '{"title":"Each"}')});
wait_done();
is(join('; ', map { join ', ', sort split /, /, titles($_) } qw(l1 l4100)), 'All, Each; All, Each', 'a group of any size receives it, with and without acknowledgements');

# An acknowledgement before the delay.
subscribe('u4');
my $u4 = $relay->client('u4');
my $id = sql(q{SELECT clairon.notify('USER', '{u4}', '{}', ack_required => true, web_push => '{"title":"Acknowledged"}')});
$u4->wait_notifications(1);
$u4->close;
http({ sub => 'u4' }, POST => '/v1/ack', { ids => [$id] });
wait_done();
is(titles('u4'), '', 'what was acknowledged is not sent');

# Escalations.
sub levels { my ($of) = @_; return map { /^(\d)\Q$of\E:(.*)/ ? "$1$2" : () } map { @{ $store->execute('ZRANGE', $_, 0, -1) } } $store->keys('escalations') }
sub escalate { my ($of, $level, $user) = @_;
    wait_until('the escalation is stored', sub { grep { $_ eq $level . ($user // '') } levels($of) });
    $store->execute('ZADD', $store->of($of, 'escalations'), 1, "$level$of:" . ($user // ''));
    wait_until('it has taken place', sub { !grep { $_ eq $level . ($user // '') } levels($of) });
    return }
sub escalated { my ($mark, $users) = @_;
    return sql("SELECT clairon.notify('USER', '{$users}', '{}', ack_required => true, escalate_after => '{1 h,2 h}', web_push => '{\"title\":\"$mark\"}')") }

subscribe($_) for qw(e1 e2 e3 e4 e5);
my ($e1, $e2) = map { $relay->client($_) } qw(e1 e2);
$id = escalated('Alarm', 'e1,e2,e3');
$_->wait_notifications(1) for $e1, $e2;
wait_done();
is(join(';', map { titles($_) } qw(e1 e2 e3)), ';;Alarm', 'only the absent user receives the first Web Push');
$e1->ack($id);
wait_until('the ack is stored', sub { ($store->execute('HGET', $store->of($id, "ack:$id"), 'e1') // 0) > 0 });
escalate($id, 1);
wait_done();
is(join(';', map { titles($_) } qw(e1 e2 e3)), ';Alarm;Alarm', 'an escalation is sent to a user without an ack, also with a session, unless one was sent before');
my ($alarm) = sent('201/e2');
is($alarm->{data}{id}, $id, 'it is the Web Push of the notification');
escalate($id, 2);
wait_done();
is(join(';', map { titles($_) } qw(e1 e2 e3)), ';Alarm;Alarm', 'the second level sends none after that');
my $state = $store->of($id, "receipt_state:$id");
my $e3    = $relay->client('e3');
$e3->wait_notifications(1);
wait_until('the delivery is recorded', sub { $store->execute('HGET', $state, 'e3') =~ /^\d+p$/ });
$e3->close;
http({ sub => 'app', admin => JSON::true }, POST => "/v1/notifications/$id/drop");
wait_until('it ended', sub { !$store->execute('EXISTS', $state) });

# The service fails first; an acknowledgement ends what is in the queue; a redrive sends no second one.
subscribe(e4 => 'once-500/e4');
subscribe(e5 => '500/e5');
my ($e4, $e5) = map { $relay->client($_) } qw(e4 e5);
$id = escalated('Late', 'e4,e5');
$_->wait_notifications(1) for $e4, $e5;
wait_done();
escalate($id, 1);
wait_until('the push service of e5 has failed', sub { @{ [ sent('500/e5') ] } > 1 });
$e5->ack($id);
wait_done();
is(scalar(sent('once-500/e4')), 2, 'the Web Push of an escalation is repeated after an error of the push service');
is(titles('e4'), 'Late', 'other subscriptions receive it once');
escalate($id, 2);
wait_done();
is(titles('e4'), 'Late', 'the second level sends none');
$store->execute('ZADD', $store->of($id, 'due'), 1, "$id:");
wait_until('it has expired', sub { !$store->execute('HEXISTS', $store->of($id, 'pending'), $id) });
is(($relay->run('errors', 'redrive', $id))[0], 0, 'the notification is redriven');
escalate($id, 1, 'e4');
wait_done();
is(titles('e4'), 'Late', 'nor does the escalation after a redrive');

# Published over HTTP; a retry keeps the text. Without an expiration, it can be sent for a day after the escalation.
my $commit = time;
$id = http({ sub => 'app', publish => JSON::true }, POST => '/v1/notifications', { payload => {}, web_push => { title => 'Published' },
    routing => { audience => { type => 'USER', targets => ['e1'] }, retry => { ack_required => JSON::true }, escalate_after => 3600 } })->{json}{id};
$e1->run_until('it arrives', sub { grep { $_->{metadata}{id} eq $id } $e1->notifications });
wait_until('the delivery is reported', sub { defined $store->execute('ZSCORE', $store->of($id, 'due'), "$id:e1") });
$store->execute('ZADD', $store->of($id, 'due'), 1, "$id:e1");
wait_until('it is retried', sub { $store->execute('EXISTS', $store->of($id, "retries:$id")) });
wait_done();
is(titles('e1'), '', 'a user with a session receives no Web Push');
escalate($id, 1);
wait_done();
is(titles('e1'), 'Published', 'the escalation of a notification published over HTTP is sent');
($request) = $service->requests('201/e1');
cmp_ok($request->{headers}{ttl}, '>', 86000, 'it lives a day from the escalation');

# A row that is stored later than the delay. Its user had a session after the commit, and has none then.
subscribe('u5');
my $gate = Clairon::Test::relay(undef, $store, roles => 'gate', conf => \%conf);
$relay->stop;
sql(q{INSERT INTO grade VALUES (8, 'u5', 'Delayed', 'n', NULL, NULL)});
$gate->client('u5')->close;
wait_until('the session has ended', sub { defined $store->execute('ZSCORE', $store->key('last_seen'), 'u5') });
my $ended = Time::HiRes::time();
wait_until('the delay is over', sub { Time::HiRes::time() > $ended + 1 });
$relay->start;
$relay->wait_ready;
$marked = $relay->client('marked');
wait_done();
is(titles('u5'), 'Delayed', 'a row that is stored late is sent to whoever has no session then');

# Without a key, relays queue nothing.
$relay->stop;
$relay->configure('webpush.vapid_key_file' => undef);
$relay->start;
$relay->wait_ready;
$marked = $relay->client('marked');
sql(q{INSERT INTO grade VALUES (9, 'u1', 'Quiet', 'n', NULL, NULL)});
wait_done();
is(queued(), 0, 'without a key nothing is queued');

done_testing();
